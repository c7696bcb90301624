"""Uses the page as a person does, in a headless browser: use_page.py PAGE PROGRAM BROWSER [FOLDER for screenshots].

At three widths, light and dark: what is typed, chosen and pasted by the keyboard alone is answered as the program
answers it, element for element; nothing is wider than the window, no text is faint, the console has nothing to say, and
nothing is asked of a network.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

from playwright.sync_api import expect, sync_playwright

TASKS = pathlib.Path(__file__).parent / "../../../docs/tasks"
WIDTHS = (360, 768, 1280)
CONFIG = (
    '{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048, "intermediate_size": 5632,'
    ' "num_attention_heads": 32, "num_hidden_layers": 22, "num_key_value_heads": 4, "vocab_size": 32000,'
    ' "max_position_embeddings": 2048, "tie_word_embeddings": false, "hidden_act": "silu"}'
)
FIRST = {
    "setup": "llama-3.1-8b --sequence-length 2048",
    "fits": "--lora 16 --gpu rtx_4090 --gpus 2",
    "plan": "--qlora 16 --gpu rtx_4090 --gpus 2 --batch 16 --samples 50k",
}

# What the page finds wrong with itself.
LOOK = """() => {
  const wrong = [];
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) wrong.push(`the page is ${root.scrollWidth} wide, its window ${root.clientWidth}`);
  const numbers = color => color.match(/[\\d.]+/g).map(Number);
  const light = color => {
    const [r, g, b] = numbers(color).map(c => c / 255).map(c => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = element => {
    for (; element; element = element.parentElement) {
      const color = getComputedStyle(element).backgroundColor;
      if (numbers(color)[3] !== 0) return color;
    }
    return "rgb(255,255,255)";
  };
  for (const element of document.querySelectorAll("body *")) {
    if (element.getClientRects().length === 0 || element.closest("svg,script")) continue;
    const has = [...element.childNodes].some(one => one.nodeType === 3 && one.data.trim() !== "") || element.value;
    if (!has || element.type === "radio") continue;
    const [a, b] = [light(getComputedStyle(element).color), light(behind(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) wrong.push(`contrast ${contrast.toFixed(2)}: ${element.tagName} ${element.textContent.slice(0, 30)}`);
  }
  for (const one of document.querySelectorAll("input,select,textarea"))
    if (one.labels.length === 0) wrong.push(`no label: ${one.id}`);
  return wrong;
}"""
# The parts of an answer, beside the same of the program's page.
SAME = """([id, theirs]) => {
  const main = new DOMParser().parseFromString(theirs, "text/html").querySelector("main");
  const ours = [...document.querySelectorAll(`#${id} > *`)].slice(2).filter(e => !e.matches("p.faint:last-child"));
  return [ours.map(e => e.outerHTML).join("\\n"), [...main.children].map(e => e.outerHTML).join("\\n")];
}"""
FIGURES = """theirs => {
  const all = page => [...page.querySelectorAll("figure")].map(e => e.outerHTML);
  const page = new DOMParser().parseFromString(theirs, "text/html");
  return [all(document.getElementById("report")), all(page)];
}"""


class Person:
    """Who has a keyboard, and looks."""

    def __init__(self, page):
        self.page = page

    def go_to(self, name):
        for _ in range(300):
            if self.page.evaluate("document.activeElement.id || document.activeElement.value") == name:
                seen = self.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
                assert seen != "none", f"{name}: nothing shows that it has the focus"
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"Tab never comes to {name}")

    def fill(self, name, text):
        self.go_to(name)
        self.page.keyboard.press("Control+A")
        if text:
            self.page.keyboard.insert_text(text) if "\n" in text else self.page.keyboard.type(text)
        else:
            self.page.keyboard.press("Delete")

    def wait(self):
        expect(self.page.locator("#status")).to_have_text(re.compile("^Answered in"), timeout=60_000)

    def ask(self):
        self.go_to_button()
        self.page.evaluate("document.getElementById('status').textContent = ''")
        self.page.keyboard.press("Enter")
        self.wait()

    def go_to_button(self):
        for _ in range(300):
            if self.page.evaluate("document.activeElement.type") == "submit":
                return
            self.page.keyboard.press("Tab")
        raise AssertionError("Tab never comes to the button")


class Program:
    def __init__(self, program):
        self.program = pathlib.Path(program).resolve()
        self.compared = 0

    def ask(self, words, files, left=None):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                (pathlib.Path(folder) / name).write_text(text)
            ran = subprocess.run([self.program, *words.split()], cwd=folder, capture_output=True, text=True)
            if left:
                return {str(f.relative_to(folder)): f.read_text() for f in pathlib.Path(folder, left).rglob("*") if f.is_file()}
            report = pathlib.Path(folder) / "report.html"
            return ran.returncode, report.read_text() if report.exists() else ran.stdout, ran.stderr

    def same(self, page, answers, files={}):
        """Each section of the page says what the program says to these words."""
        for where, words in answers.items():
            status, out, err = self.ask(words if where == "report" else words + " --format html", files)
            if status != 0:
                shown = page.locator(f"#{where} .refusal").inner_text()
                assert shown.strip() == err.strip(), f"{where}: {shown!r} is not {err!r}"
            elif where == "report":
                ours, theirs = page.evaluate(FIGURES, out)
                assert theirs and ours == theirs, f"{where}: {words}: the pictures differ"
            else:
                ours, theirs = page.evaluate(SAME, [where, out])
                assert theirs and ours == theirs, f"{where}: {words}\n{ours}\n is not\n{theirs}"
                assert not err or page.locator(f"#{where} > p.faint:last-child").inner_text().strip() == err.strip()
            command = page.locator(f"#{where} > .command code").first.inner_text()
            assert command == f"gpuplan {words}", f"{command} is not gpuplan {words}"
            self.compared += 1


def answers_to(setup, fits, plan):
    return {
        "fits": f"fits {setup} {fits}",
        "plan": f"plan {setup} {plan}",
        "report": f"report {setup} {plan} -o report.html",
    }


def use(page, program, shot):
    """All that a person does with the page. Returns the seconds until the first answer."""
    person = Person(page)
    person.wait()
    seconds = float(page.evaluate("document.documentElement.dataset.first"))
    program.same(page, answers_to(**FIRST))
    shot("first")

    # Another model and method, with money; and its files.
    person.fill("model", "gpt2")
    person.fill("gpus", "4")
    person.fill("price", "0.4")
    person.go_to("method")
    page.keyboard.press("a")  # all weights
    person.fill("batch", "64")
    person.fill("sequence", "")
    person.ask()
    plan = "--gpu rtx_4090 --gpus 4 --batch 64 --samples 50k --price 0.4"
    program.same(page, answers_to("gpt2", "--gpu rtx_4090 --gpus 4", plan))
    for tool in ("torchrun", "slurm"):
        person.go_to("tool")
        if tool == "slurm":
            page.keyboard.press("s")
        expect(page.locator("#files .command code")).to_contain_text(tool, timeout=60_000)
        written = program.ask(f"plan gpt2 {plan} --write {tool} --into plan", {}, "plan")
        shown = page.evaluate("""Object.fromEntries([...document.querySelectorAll('#files details')].map(
            e => [e.querySelector('summary').textContent, e.querySelector('pre').textContent]))""")
        assert written and shown == written, f"{tool}: {shown} is not {written}"
        program.compared += 1
    shot("all")
    person.go_to("link")
    page.keyboard.press("Enter")
    expect(page.locator("#status")).to_have_text("The link is copied.")
    link = page.evaluate("location.href")

    # Refusals, as the program has them.
    person.fill("model", "no-such-model")
    person.ask()
    program.same(page, {k: v for k, v in answers_to("no-such-model", "--gpu rtx_4090 --gpus 4", plan).items() if k != "report"})
    assert page.locator("#report").count() == 0
    shot("refused")

    # A config.json, then a trainer's file.
    page.locator("body").focus()
    person.go_to("name") if page.evaluate("document.querySelector('[name=from]:checked').value") == "name" else None
    page.keyboard.press("ArrowDown")
    person.fill("text", CONFIG)
    person.ask()
    program.same(page, answers_to("config.json", "--gpu rtx_4090 --gpus 4", plan), {"config.json": CONFIG})
    person.go_to("config")
    page.keyboard.press("ArrowDown")
    axolotl = (TASKS / "axolotl.yml").read_text()
    person.fill("text", axolotl)
    person.fill("file", "axolotl.yml")
    person.ask()
    plan = "--gpu rtx_4090 --gpus 4 --samples 50k --price 0.4"
    program.same(page, {"check": "check axolotl.yml --gpu rtx_4090 --gpus 4",
                        **answers_to("--from axolotl.yml", "--gpu rtx_4090 --gpus 4", plan)}, {"axolotl.yml": axolotl})
    shot("trainer")

    # Pasted text is in the address only where a link is asked for.
    assert "micro_batch_size" not in page.evaluate("location.href"), "the address has the pasted text"
    person.go_to("link")
    page.keyboard.press("Enter")
    expect(page.locator("#status")).to_have_text("The link is copied.")
    assert "micro_batch_size" in page.evaluate("location.href"), "the link has no pasted text"

    # The link holds the question.
    page.goto("about:blank")
    page.goto(link)
    person.wait()
    program.same(page, answers_to("gpt2", "--gpu rtx_4090 --gpus 4", "--gpu rtx_4090 --gpus 4 --batch 64 --samples 50k --price 0.4"))
    return seconds


# A browser without what the program needs, and one without any of it.
TOO_OLD = {
    "WebAssembly.compile = async () => { throw new WebAssembly.CompileError('invalid opcode 0x1f'); }": "invalid opcode 0x1f",
    "delete globalThis.WebAssembly": "WebAssembly is not defined",
}


def too_old(run, address, problems):
    """Where the program cannot start the page says so, and goes on saying so."""
    for script, why in TOO_OLD.items():
        page = run.new_page()
        page.on("pageerror", lambda said: problems.append(f"too old: {said}"))
        page.add_init_script(script)
        page.goto(address)
        says = re.compile(f"^This browser cannot start the program.*: {why}$")
        expect(page.locator("#status")).to_have_text(says)
        page.locator("#gpus").fill("4")
        page.keyboard.press("Enter")
        expect(page.locator("#status")).to_have_text(says)
        page.close()


def main():
    address, program, browser, *folder = sys.argv[1:]
    address = pathlib.Path(address).resolve().as_uri()
    program = Program(program)
    problems = []
    with sync_playwright() as playwright:
        run = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        try:
            too_old(run, address, problems)
        except Exception as wrong:
            problems.append(f"too old: {wrong}"[:6000])
        for scheme in ("light", "dark"):
            for width in WIDTHS:
                where = f"{width} {scheme}"
                context = run.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
                page = context.new_page()
                page.set_default_timeout(60_000)
                page.on("console", lambda said: problems.append(f"{where}: console: {said.text}"))
                page.on("pageerror", lambda said: problems.append(f"{where}: {said}"))
                page.on("request", lambda asked: problems.append(f"{where}: asks for {asked.url[:80]}")
                        if asked.url.split(":")[0] not in ("file", "blob", "data", "about") else None)

                def shot(name):
                    problems.extend(f"{where}, {name}: {one}" for one in page.evaluate(LOOK))
                    if folder:
                        page.screenshot(path=pathlib.Path(folder[0]) / f"{name}_{width}_{scheme}.png", full_page=True)

                page.goto(address)
                try:
                    seconds = use(page, program, shot)
                    print(f"{where}: the first answer after {seconds:.2f} s")
                except Exception as wrong:
                    problems.append(f"{where}: {wrong}"[:6000])
                context.close()
        run.close()
    print(f"{program.compared} answers were the program's")
    print("\n".join(problems) or "used all")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
