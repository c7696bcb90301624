"use strict";

// The form composes command lines; the program answers them in a worker, in HTML; the page shows it.

const began = performance.now();
const $ = id => document.getElementById(id);
const form = $("question");
const field = name => form.elements[name];
const isShown = one => one instanceof RadioNodeList || one.closest("[hidden]") === null;
// What is hidden says nothing.
const said = name => (isShown(field(name)) ? field(name).value.trim() : "");

// ---- what is asked

let held = {}; // files from this computer, by name

// The options that several commands share, and the files that they read.
function question() {
  const from = said("from");
  const files = {};
  if (from !== "name") {
    Object.assign(files, held);
    if (field("text").value.trim() !== "")
      files[from === "config" ? "config.json" : said("file") || "config.yaml"] = field("text").value;
  }
  const names = Object.keys(files);
  const option = (name, value) => (value === "" ? [] : [name, value]);
  const model = from === "name" ? [said("model")] : from === "config" ? names.slice(0, 1) : ["--from", ...names];
  const method = said("method");
  const ranked = ["lora", "qlora"].includes(method) ? ["--" + method, said("rank")] : [];
  const setup = [...option("--framework", said("framework")), ...option("--sequence-length", said("sequence"))];
  const gpus = ["--gpu", said("gpu"), ...option("--gpus", said("gpus"))];
  const rest = [
    ...ranked,
    ...gpus,
    ...option("--batch", said("batch")),
    ...option("--" + said("unit"), said("run")),
    ...option("--price", said("price")),
  ];
  return {
    files,
    isMissing: from !== "name" && names.length === 0,
    check: from === "trainer" ? ["check", ...names, ...gpus] : null,
    fits: ["fits", ...model, ...setup, ...(ranked.length ? ["--lora", said("rank")] : []), ...gpus],
    plan: ["plan", ...model, ...setup, ...rest],
    report: ["report", ...model, ...setup, ...rest, "-o", "report.html"],
    write: tool => ["plan", ...model, ...setup, ...rest, "--write", tool, "--into", "plan"],
  };
}

const quoted = word => (/^[\w@%+=:,./-]+$/.test(word) ? word : "'" + word.replaceAll("'", "'\\''") + "'");
const commandOf = words => ["gpuplan", ...words].map(quoted).join(" ");

// ---- the program

const programs = {module: null, worker: null, waits: new Map(), count: 0};

async function moduleOf(text) {
  const packed = Uint8Array.from(atob(text), c => c.charCodeAt(0));
  const plain = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return WebAssembly.compile(await new Response(plain).arrayBuffer());
}

const inWorker = `
let module;
onmessage = ({data}) => {
  if (data.module) return void (module = data.module);
  const started = performance.now();
  let answer;
  try {
    answer = run(module, ["gpuplan", ...data.words], data.files);
  } catch (error) {
    answer = {status: 1, out: "", err: "gpuplan ended: " + error, files: {}};
  }
  postMessage({id: data.id, seconds: (performance.now() - started) / 1000, ...answer});
};`;

function start() {
  const code = new Blob([$("wasi").textContent + inWorker], {type: "text/javascript"});
  const url = URL.createObjectURL(code);
  programs.worker = new Worker(url);
  programs.worker.onmessage = ({data}) => {
    programs.waits.get(data.id)?.(data);
    programs.waits.delete(data.id);
  };
  programs.worker.onerror = ({message}) => cannotStart(message);
  programs.worker.postMessage({module: programs.module});
}

function cannotStart(why) {
  $("status").className = "refusal";
  $("status").textContent = "This browser cannot start the program, which needs WebAssembly with exceptions of version 3 " +
    "(exnref): take a newer browser. It says: " + why;
}

// Gives up what is being worked out, whose answers are null.
function stop() {
  if (programs.waits.size === 0) return;
  programs.worker.terminate();
  for (const answered of programs.waits.values()) answered(null);
  programs.waits.clear();
  start();
}

function ask(words, files) {
  const id = ++programs.count;
  return new Promise(answered => {
    programs.waits.set(id, answered);
    programs.worker.postMessage({id, words, files});
  });
}

// ---- what is shown

function element(name, properties = {}, ...inside) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...inside);
  return made;
}

function copyButton(text, what) {
  const button = element("button", {type: "button", textContent: "Copy"});
  button.setAttribute("aria-label", "Copy " + what);
  button.onclick = async () => {
    await copy(text);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  };
  return button;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // where a page of a file may not
    const area = element("textarea", {value: text});
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

function saveLink(name, text, what) {
  const type = name.endsWith(".html") ? "text/html" : "text/plain";
  return element("a", {href: URL.createObjectURL(new Blob([text], {type})), download: name.split("/").pop(),
    textContent: what});
}

// Its words stay whole where a line has room for them.
function commandLine(words) {
  const spans = ["gpuplan", ...words].flatMap((word, at) =>
    [...(at ? [" "] : []), element("span", {textContent: quoted(word)})]);
  return element("div", {className: "command"}, element("code", {}, ...spans),
    copyButton(commandOf(words), "the command"));
}

function section(id, heading, words) {
  const made = element("section", {id}, element("h2", {textContent: heading}), commandLine(words));
  made.setAttribute("aria-labelledby", id + "-head");
  made.firstChild.id = id + "-head";
  $("answers").append(made);
  return made;
}

const pageOf = text => new DOMParser().parseFromString(text, "text/html");

// The styles of the program's own pages.
function takeStyles(page) {
  if (document.getElementById("of-program")) return;
  const styles = element("style", {id: "of-program", textContent: page.querySelector("style").textContent});
  document.head.prepend(styles);
}

function show(to, answer, parts) {
  if (answer.out !== "" && parts.length) to.append(...parts.map(part => document.adoptNode(part)));
  if (answer.err === "") return;
  const isRefused = answer.status !== 0;
  const lines = answer.err.trim().replace(/\n--help says what there is$/, "");
  to.append(element("p", {className: isRefused ? "refusal" : "faint", textContent: lines}));
  to.dataset.refused = isRefused;
}

function showHtml(to, answer) {
  const page = pageOf(answer.out);
  if (answer.out !== "") takeStyles(page);
  show(to, answer, answer.out === "" ? [] : [...page.querySelector("main").children]);
}

function showPictures(to, answer) {
  const report = answer.files["report.html"];
  const parts = [];
  if (report !== undefined) {
    const page = pageOf(report);
    takeStyles(page);
    for (const figure of page.querySelectorAll("figure")) {
      let head = figure.previousElementSibling;
      while (head && head.tagName !== "H2") head = head.previousElementSibling;
      if (head) parts.push(element("h3", {textContent: head.textContent}));
      parts.push(figure);
    }
    parts.push(element("p", {}, saveLink("report.html", report, "Save the whole report"),
      ", which has the assumptions too."));
  }
  show(to, {...answer, out: "pictures"}, parts);
}

const tools = ["torchrun", "slurm", "accelerate", "deepspeed", "hf", "axolotl", "llama-factory", "torchtitan",
  "megatron", "bridge", "kubeflow", "skypilot", "ray"];

function showFiles(to, asked) {
  const choice = element("select", {id: "tool"}, ...tools.map(name => element("option", {textContent: name})));
  const made = element("div");
  const now = async () => {
    const words = asked.write(choice.value);
    const answer = await ask([...words, "--format", "html"], asked.files);
    if (answer === null) return;
    made.replaceChildren(commandLine(words));
    const written = Object.entries(answer.files).filter(([name]) => name.startsWith("plan/"));
    for (const [name, text] of written)
      made.append(element("details", {open: written.length < 3}, element("summary", {textContent: name}),
        element("pre", {textContent: text, tabIndex: 0}),
        element("p", {}, copyButton(text, name), " ", saveLink(name, text, "Save"))));
    show(made, answer, []);
  };
  choice.onchange = now;
  to.append(element("div", {className: "field short"},
    element("label", {htmlFor: "tool", textContent: "For"}), choice), made);
  return now();
}

let turn = 0;

async function answer() {
  if (programs.worker === null) return; // it starts, and then answers
  const mine = ++turn;
  stop();
  const asked = question();
  $("answers").replaceChildren();
  if (asked.isMissing) return void ($("status").textContent = "Paste a file, or choose one.");
  const started = performance.now();
  const say = what => ($("status").textContent = what);
  const steps = [
    ...(asked.check ? [["check", "What the files say", asked.check, showHtml]] : []),
    ["fits", "What fits", asked.fits, showHtml],
    ["plan", "The plan, its time and money", asked.plan, showHtml],
    ["report", "Where time and memory go", asked.report, showPictures],
  ];
  let isPlanned = true;
  for (const [id, heading, words, shown] of steps) {
    if (id === "report" && !isPlanned) continue;
    say("Working out: " + heading.toLowerCase() + ".");
    const made = await ask(id === "report" ? words : [...words, "--format", "html"], asked.files);
    if (mine !== turn) return;
    shown(section(id, heading, words), made);
    if (id === "plan") isPlanned = made.status === 0;
    if (document.documentElement.dataset.first === undefined)
      document.documentElement.dataset.first = ((performance.now() - began) / 1000).toFixed(3);
  }
  if (isPlanned) {
    say("Working out: files to run.");
    const files = element("section", {id: "files"}, element("h2", {textContent: "Files to run", id: "files-head"}));
    files.setAttribute("aria-labelledby", "files-head");
    $("answers").append(files);
    await showFiles(files, asked);
    if (mine !== turn) return;
  }
  say("Answered in " + ((performance.now() - started) / 1000).toFixed(2) + " s.");
}

// ---- the link

const kept = ["from", "model", "text", "file", "gpu", "gpus", "price", "method", "rank", "batch", "sequence", "run", "unit",
  "framework"];

// Pasted text is part of a link that is asked for; otherwise the browser's history need not have it.
function linkOf(withText) {
  const words = new URLSearchParams();
  const from = said("from");
  for (const name of kept) {
    if (from === "name" ? name === "text" || name === "file" : name === "model") continue;
    if (name === "text" && !withText) continue;
    words.set(name, field(name).value);
  }
  return "#" + words;
}

function readLink() {
  for (const [name, value] of new URLSearchParams(location.hash.slice(1)))
    if (kept.includes(name)) field(name).value = value;
  arrange();
}

// Shows what belongs to the choices made.
function arrange() {
  const is = (words, one) => words.split(" ").includes(one);
  for (const one of form.querySelectorAll("[data-for]"))
    one.hidden = !is(one.dataset.for, said("from")) ||
      (one.dataset.forMethod !== undefined && !is(one.dataset.forMethod, field("method").value));
}

function changed() {
  arrange();
  history.replaceState(null, "", linkOf(false));
  answer();
}

form.onsubmit = event => {
  event.preventDefault();
  changed();
};
form.onchange = event => {
  if (event.target.id !== "chosen") changed();
};
$("chosen").onchange = async event => {
  held = {};
  for (const file of event.target.files) held[file.name] = await file.text();
  $("held").textContent = Object.keys(held).join(", ");
  changed();
};
$("link").onclick = async () => {
  history.replaceState(null, "", linkOf(true));
  await copy(location.href);
  $("status").textContent = "The link is copied" + (Object.keys(held).length ? ", without the files of this computer." : ".");
};
window.onhashchange = () => {
  readLink();
  answer();
};

async function fill(list, command, name) {
  let made = null;
  while (made === null) made = await ask([command, "--format", "json"], {}); // given up where the form changes
  const {out} = made;
  $(list).append(...JSON.parse(out).answer.map(row => element("option", {value: row[name]})));
}

(async () => {
  readLink();
  try {
    programs.module = await moduleOf($("program").textContent);
    start();
  } catch (error) {
    return void cannotStart(error.message);
  }
  await answer();
  await fill("models", "models", "model");
  await fill("gpu-names", "gpus", "gpu");
  await fill("frameworks", "frameworks", "framework");
})();
