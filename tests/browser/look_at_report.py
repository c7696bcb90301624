"""Looks at reports of gpuplan in a headless browser, at the widths of a phone, a tablet and a desk.

look_at_report.py GPUPLAN BROWSER: nothing is wider than the window but tables, which scroll by themselves; every
text of a picture is within it and on no other; the console has nothing to say; no screenshot is empty.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

WIDTHS = (360, 800, 1400)
REPORTS = (
    "llama-3-8b --framework torchtitan --gpu h100_sxm5_80gb --batch 64",
    "gpt3-175b --framework megatron-te --nodes 16 --batch 256 --tokens 1e10 --price 1.8 --virtual-pipeline 1-2",
)

# What a page finds wrong with itself, as a list of sentences in an element of its own.
LOOK = """
<script>
addEventListener("load", () => {
  const wrong = [];
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) wrong.push(`the page is ${root.scrollWidth} wide`);
  const shown = (element) => element.getClientRects().length > 0;
  const words = (element) => element.textContent.trim().slice(0, 40);
  for (const element of document.querySelectorAll("h1,h2,p,dt,dd,nav a,li"))
    if (shown(element) && element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0)
      wrong.push(`cut: ${words(element)}`);
  for (const element of document.querySelectorAll("main *, header *")) {
    if (!shown(element) || element.closest(".table") || element.closest("svg")) continue;
    if (element.getBoundingClientRect().right > innerWidth + 1) wrong.push(`beyond the window: ${words(element)}`);
  }
  let pictures = 0;
  for (const svg of document.querySelectorAll("svg")) {
    if (!shown(svg)) continue;
    ++pictures;
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text:not([aria-hidden])")].map((e) => [words(e), e.getBoundingClientRect()]);
    texts.forEach(([name, box], at) => {
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
        wrong.push(`beyond its picture: ${name}`);
      for (const [other, its] of texts.slice(at + 1)) {
        const across = Math.min(box.right, its.right) - Math.max(box.left, its.left);
        const down = Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top);
        if (across > 1 && down > 4) wrong.push(`one on the other: ${name} and ${other}`);
      }
      if (box.height < 8) wrong.push(`${box.height} pixels high: ${name}`);
    });
  }
  parent.postMessage(JSON.stringify({wrong, pictures, width: innerWidth}), "*");
});
</script>
"""

# A browser's window has a least width; a frame has none.
FRAME = """<!doctype html><title>frame</title><body style="margin:0"><script>
addEventListener("message", (told) => {
  const element = document.createElement("pre");
  element.id = "found";
  element.textContent = told.data;
  document.body.append(element);
});
</script><iframe src="PAGE" style="border:0;width:WIDTHpx;height:900px"></iframe>"""


def browse(browser, folder, width, page, *options):
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr",
               f"--user-data-dir={folder / 'profile'}", f"--window-size={width},900", *options, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def main():
    gpuplan, browser = sys.argv[1:3]
    problems = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for number, options in enumerate(REPORTS):
            page = folder / f"report{number}.html"
            subprocess.run([gpuplan, "report", *options.split(), "-o", str(page)], check=True, capture_output=True)
            text = page.read_text()
            asked = folder / f"asked{number}.html"
            # A page of gpuplan runs no script: that is what its policy says, so the copy has none.
            asked.write_text(re.sub(r"<meta http-equiv[^>]*>", "", text).replace("</body>", LOOK + "</body>"))
            for width in WIDTHS:
                where = f"{options.split()[0]} at {width}"
                frame = folder / "frame.html"
                frame.write_text(FRAME.replace("PAGE", asked.name).replace("WIDTH", str(width)))
                dumped = browse(browser, folder, 1500, frame, "--dump-dom", "--virtual-time-budget=10000")
                answer = re.search(r'<pre id="found">(.*?)</pre>', dumped.stdout, re.S)
                if not answer:
                    problems.append(f"{where}: the browser shows no page: {dumped.stderr[-300:]}")
                    continue
                found = json.loads(answer[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
                if found["width"] != width:
                    problems.append(f"{where}: the window is {found['width']} wide")
                if found["pictures"] < 4:
                    problems.append(f"{where}: {found['pictures']} pictures")
                problems += [f"{where}: {one}" for one in found["wrong"]]
                shot = folder / f"shot{number}_{width}.png"
                looked = browse(browser, folder, width, page, f"--screenshot={shot}")
                problems += [f"{where}: {line}" for line in looked.stderr.splitlines() if "CONSOLE" in line]
                if not shot.exists() or shot.stat().st_size < 20_000:
                    problems.append(f"{where}: an empty screenshot")
    print("\n".join(problems) or "looked at all")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
