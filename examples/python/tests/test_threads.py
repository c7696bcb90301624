"""Other threads run while a search does, and Ctrl-C ends it."""

import signal
import subprocess
import sys
import threading
import time

import gpuplan

# Many searches, of seconds together.
LONG = (
    "gpuplan.how_many('gpt3-175b', framework='megatron-te', nodes=64, batch=1536, tokens=3e11, "
    "price=1.8, gpu='a100-sxm-80gb,h100-sxm')"
)


def test_others_run_meanwhile():
    asked = threading.Thread(target=lambda: eval(LONG))
    asked.start()
    turns = 0
    while asked.is_alive():
        time.sleep(0.001)
        turns += 1
    # Were the interpreter held, none or one would be.
    assert turns > 50


def test_several_at_once():
    questions = ["gpt2", "llama-3-8b", "mistral-7b-v0.1", "qwen2.5-7b"]
    alone = [gpuplan.fits(one, gpu="4090") for one in questions]
    together = {}

    def ask(name):
        together[name] = gpuplan.fits(name, gpu="4090")

    threads = [threading.Thread(target=ask, args=[one]) for one in questions]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert [together[one] for one in questions] == alone


def test_interrupt():
    script = (
        "import gpuplan\n"
        "print('begun', flush=True)\n"
        "try:\n"
        f"    while True: {LONG}\n"
        "except KeyboardInterrupt:\n"
        "    print('ended')\n"
        "    print(len(gpuplan.gpus('4090')))\n"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert running.stdout.readline() == "begun\n"
    time.sleep(0.5)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert (out, err, running.returncode) == ("ended\n1\n", "", 0)
