// Shell scripts as words, and what torchrun is told.

#include <doctest/doctest.h>

#include <gpuplan/io/trainer/command_words.hpp>
#include <gpuplan/io/trainer/torchrun.hpp>

#include <random_numbers.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace {

using namespace gpuplan;
using namespace gpuplan::io;
using word_list = std::vector<std::string>;

word_list only(const char* script) {
  const shell_script read = read_shell_script(script);
  REQUIRE(read);
  REQUIRE(read.commands.size() == 1);
  return read.commands[0].words;
}

TEST_CASE("words are what the shell makes of them") {
  CHECK(only("a 'b c' \"d e\" f\\ g h'i'\"j\"") == word_list{"a", "b c", "d e", "f g", "hij"});
  CHECK(only("a \\\n  b # c 'd\n") == word_list{"a", "b"});
  CHECK(only("a \"\" '' b#c") == word_list{"a", "", "", "b#c"});
  CHECK(only("a \"\\$x \\\\ \\q\" '\\'") == word_list{"a", "$x \\ \\q", "\\"});
  CHECK(only("A=1 B='2 3' prog $A > out 2>&1 < in") == word_list{"prog", "1"});
  CHECK(only("cat <<EOF\n$(not \"run)\nEOF\n") == word_list{"cat"});
  CHECK(only("a\r\n") == word_list{"a"});
}

TEST_CASE("variables and arrays stand for what the script sets them to") {
  CHECK(only("N=4\nT=\"x  y\"\np $N ${N}k \"$T\" $T '$N'") ==
        word_list{"p", "4", "4k", "x  y", "x", "y", "$N"});
  CHECK(only("A=(--tp 4 # degrees\n  --name 'a b'\n)\nA+=(--sp)\np \"${A[@]}\" end") ==
        word_list{"p", "--tp", "4", "--name", "a b", "--sp", "end"});
  CHECK(only("A=(x y)\np ${A[@]} ${A[*]} \"${A[*]}\"") ==
        word_list{"p", "x", "y", "x", "y", "x y"});
  CHECK(only("E=()\np \"${E[@]}\" ${E[@]} q") == word_list{"p", "q"});
  CHECK(only("p ${N:-8} ${M:-\"a b\"} ${L:=\"a b\"} ${K-$((2 * 3))}") ==
        word_list{"p", "8", "a b", "a", "b", "6"});
  CHECK(only("G=8; N=4; export W=$((G * $N / (1 + 1)))\np $W") == word_list{"p", "16"});
  CHECK(only("O='--a 1'\nO+=' --b'\np $O") == word_list{"p", "--a", "1", "--b"});
  CHECK(only("C='p --a'\nC=\"$C --b\"\neval $C") == word_list{"p", "--a", "--b"});
  CHECK(only("N=2\nsrun -N 4 bash -c \"p $N 'x y'\"") ==
        word_list{"srun", "-N", "4", "p", "2", "x y"});
}

TEST_CASE("what a script does not say stays, and is named") {
  const shell_script read = read_shell_script(
      "if x; then T=1; else T=2; fi\nU=3; if x; then U=3; fi\n"
      "p $1 \"$(nproc --all)\" `date` $T $U $((1 << 2)) ${X%.py} $@\n");
  REQUIRE(read);
  CHECK(
      read.commands.back().words ==
      word_list{"p", "$1", "$(nproc --all)", "`date`", "$T", "3", "$((1 << 2))", "${X%.py}", "$@"});
  CHECK(read.commands.back().line == 3);
  CHECK(read.unresolved ==
        word_list{"$1", "$(nproc --all)", "`date`", "$T", "$((1 << 2))", "${X%.py}", "$@"});
}

std::vector<std::string> guessed(const shell_command& command) {
  std::vector<std::string> names;
  for (const shell_guess& each : command.guesses) names.push_back(each.variable);
  return names;
}

TEST_CASE("of branches that the script decides, the one that runs counts") {
  const auto last = [](const std::string& script) {
    const shell_script read = read_shell_script(script);
    REQUIRE_MESSAGE(read, read.why);
    REQUIRE_FALSE(read.commands.empty());
    CHECK(read.commands.back().guesses.empty());
    return read.commands.back().words;
  };
  const std::string sizes =
      "if [[ $SIZE == \"13B\" ]]; then H=5120; L=40\nelif [ \"$SIZE\" = 7B ]; then\n  H=4096\n  "
      "L=32\n"
      "else echo unknown; exit 1; fi\np $H $L";
  CHECK(last("SIZE=7B\n" + sizes) == word_list{"p", "4096", "32"});
  CHECK(last("SIZE=13B\n" + sizes) == word_list{"p", "5120", "40"});
  const std::string kinds =
      "case $KIND in\n  small|tiny) A=1 ;;\n  big*) A=2; B=3 ;;\n  *) A=4\nesac\np $A $B";
  CHECK(last("B=0; KIND=tiny\n" + kinds) == word_list{"p", "1", "0"});
  CHECK(last("B=0; KIND=bigger\n" + kinds) == word_list{"p", "2", "3"});
  CHECK(last("B=0; KIND=other\n" + kinds) == word_list{"p", "4", "0"});
  CHECK(last("N=4\n[ $N -gt 2 ] && A=many || A=few\np $A") == word_list{"p", "many"});
  CHECK(last("N=1\n[ $N -gt 2 ] && A=many || A=few\np $A") == word_list{"p", "few"});
  CHECK(last("N=1\nif ! [ $N -ge 2 ]; then A=few; fi\np $A") == word_list{"p", "few"});
  CHECK(last("if [ -z \"$UNSET\" ]; then UNSET=8; fi\np $UNSET") == word_list{"p", "8"});
  CHECK(last("A=0\nif [ -n \"${UNSET}\" ]; then A=1; fi\np $A") == word_list{"p", "0"});
  CHECK(last("if false; then torchrun a.py; else torchrun b.py; fi") ==
        word_list{"torchrun", "b.py"});
  CHECK(last("for N in 3; do A=$N; done; p $A") == word_list{"p", "3"});
  CHECK(last("A=1; mkdir x || { A=2; exit 1; }\np $A") == word_list{"p", "1"});
}

TEST_CASE("what a branch adds that the script does not decide is kept, and said") {
  const shell_script read = read_shell_script(
      "T='--micro-batch-size 1'\nif [ \"$BIG\" = 1 ]; then\n  T=\"$T --global-batch-size "
      "512\"\nfi\n"
      "A=( --a 1 )\nif grep -q x y; then A+=( --b 2 ); fi\n[ $C = d ] && S+=' --s'\n"
      "if ((N > 2)); then T+=\" --t\"; fi\np $T \"${A[@]}\" $S\nq 1\n");
  REQUIRE(read);
  const shell_command& trains = read.commands[read.commands.size() - 2];
  CHECK(trains.words == word_list{"p",
                                  "--micro-batch-size",
                                  "1",
                                  "--global-batch-size",
                                  "512",
                                  "--t",
                                  "--a",
                                  "1",
                                  "--b",
                                  "2",
                                  "--s"});
  CHECK(guessed(trains) == word_list{"T", "T", "A", "S"});
  CHECK(trains.guesses[0].text ==
        "is added to in line 3, which runs only where a condition holds; it is taken to hold");
  CHECK(read.commands.back().guesses.empty());
  // what arguments may set keeps its default
  const shell_script parsed = read_shell_script(
      "N=2\nwhile [ $# -gt 0 ]; do case $1 in --nodes) N=$2; shift 2 ;; esac; done\np $N\n");
  REQUIRE(parsed);
  CHECK(parsed.commands.back().words == word_list{"p", "2"});
  CHECK(guessed(parsed.commands.back()) == word_list{"N"});
}

TEST_CASE("of a loop the first value counts, and the others are said") {
  const shell_script read = read_shell_script(
      "for LR in 1e-4 3e-4; do\n  OUT=out_$LR\n  p --lr $LR --out $OUT\ndone\n"
      "for i in $(seq 3); do q $i; done\nfor ((i = 0; i < 3; ++i)); do r $i; done\n"
      "X=(a b)\nfor i in \"${X[@]}\"; do s $i; done\n");
  REQUIRE(read);
  REQUIRE(read.commands.size() == 4);
  CHECK(read.commands[0].words == word_list{"p", "--lr", "1e-4", "--out", "out_1e-4"});
  REQUIRE(read.commands[0].guesses.size() == 1);
  CHECK(read.commands[0].guesses[0].variable == "LR");
  CHECK(read.commands[0].guesses[0].text ==
        "is 1e-4, 3e-4 in a loop, so that several trainings are meant; this is the first");
  CHECK(read.commands[1].words == word_list{"q", "$i"});
  CHECK(read.commands[2].words == word_list{"r", "$i"});
  CHECK(read.commands[3].words == word_list{"s", "a"});
  const read_launch run = read_torchrun_words(
      read_shell_script("for LR in 1 2; do torchrun --nproc-per-node 2 t.py --lr $LR; done"));
  REQUIRE(run.read.remarks.size() == 1);
  CHECK(run.read.remarks[0].key == "LR");
  CHECK(run.words == word_list{"--lr", "1"});
}

TEST_CASE("options alone are one command, whatever their lines") {
  CHECK(only("# sizes\n--num-layers 4\n--bf16\n\n--lr 1e-4\n") ==
        word_list{"--num-layers", "4", "--bf16", "--lr", "1e-4"});
}

TEST_CASE("scripts that would exhaust memory or the stack are refused, or read to their end") {
  std::string doubles = "A=xxxxxxxxxxxxxxxx\n";
  for (int i = 0; i < 60; ++i) doubles += "A=$A$A\n";
  CHECK(read_shell_script(doubles).why.find("more than 4 MiB") != std::string::npos);
  CHECK(read_shell_script(std::string(most_of_settings + 1, 'a')).why == "it has more than 4 MiB");
  CHECK_FALSE(read_shell_script(std::string_view("a\0b", 3)));
  std::string deep = "p ";
  for (int i = 0; i < 10'000; ++i) deep += "${A:-";
  CHECK(read_shell_script(deep));
  CHECK(read_shell_script("p $((" + std::string(100'000, '(') + "))"));
  CHECK(read_shell_script("p $((" + std::string(100'000, '-') + "))"));
  std::string nested;
  for (int i = 0; i < 1000; ++i) nested += "if [ a ]; then\n";
  CHECK(read_shell_script(nested).why == "its conditions and loops nest deeper than 64");
  std::string patterns = "A=" + std::string(100'000, 'a') + "\nif [[ $A == ";
  for (int i = 0; i < 1000; ++i) patterns += "*a";
  CHECK(read_shell_script(patterns + "b ]]; then p; fi"));
  std::string evals = "p";
  for (int i = 0; i < 200; ++i) evals = "eval " + evals;
  CHECK(read_shell_script(evals));
}

TEST_CASE("mutated scripts are read without a fault") {
  const std::string sample =
      "#!/bin/bash\nN=${NODES:-2}\nA=(--nnodes $N --tp 4 'a b')\nA+=(--sp) # more\nif [ $N ]; "
      "then\n"
      "  W=$((N * 8))\nfi\nfor l in 1 2; do case $l in 1|a*) [[ $l == 1 ]] && A+=(--l $l) ;; esac; "
      "done\ncat <<X\nq\nX\nC=\"torchrun ${A[@]}\"\n"
      "srun bash -c \"eval $C --x `y` $(z)\" > log 2>&1 | tee -a l\n";
  const std::string pieces = "'\"\\$`(){}[]@*#;&|<>=+-:\n \tA1N\xff%/!~";
  random_numbers random(7);
  std::size_t read = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = sample;
    for (std::int64_t changes = 1 + random.below(6); changes > 0; --changes) {
      const auto at =
          static_cast<std::size_t>(random.below(static_cast<std::int64_t>(text.size())));
      const char piece =
          pieces[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(pieces.size())))];
      switch (random.below(3)) {
        case 0:
          text[at] = piece;
          break;
        case 1:
          text.insert(at, 1, piece);
          break;
        default:
          text.erase(at, static_cast<std::size_t>(1 + random.below(8)));
          break;
      }
      if (text.empty()) text = " ";
    }
    const shell_script script = read_shell_script(text);
    for (const shell_command& each : script.commands) REQUIRE_FALSE(each.words.empty());
    if (read_torchrun_words(script).read) ++read;
  }
  CHECK(read > 2'000);
}

TEST_CASE("torchrun's words are read, and those of the trainer left to it") {
  const read_launch made = read_torchrun_words(read_shell_script(
      "python tools/prepare.py --x\nexport A=1\n"
      "NODES=4\nsrun torchrun --nnodes=$NODES --nproc_per_node 8 --rdzv-id 3 -r 3 "
      "train.py --lr 1e-4 --nnodes 9\n"));
  REQUIRE(made.read);
  CHECK(*made.read.config.nodes == 4);
  CHECK(*made.read.config.gpus_per_node == 8);
  CHECK(*made.read.config.gpus == 32);
  CHECK(made.program == "train.py");
  CHECK(made.words == word_list{"--lr", "1e-4", "--nnodes", "9"});
  CHECK(made.launcher.front() == "srun");
  CHECK(made.read.remarks.empty());
  CHECK(made.read.not_understood.empty());
}

TEST_CASE("torchrun's odd words are said") {
  const auto of = [](const char* text) { return read_torchrun(text); };
  CHECK(*of("torchrun t.py").config.gpus == 1);
  CHECK_FALSE(of("torchrun --nproc-per-node gpu t.py").config.gpus_per_node);
  CHECK(of("torchrun --nproc-per-node eight t.py").remarks[0].is == remark::kind::contradicts);
  CHECK(of("torchrun --nnodes $1 t.py").remarks[0].text ==
        "is \"$1\", which the script does not say");
  CHECK(*of("torchrun --nnodes 1:4 t.py").config.nodes == 4);
  CHECK(of("torchrun --nnodes 1:4 t.py").remarks.size() == 1);
  CHECK(of("torchrun --odd t.py").not_understood == word_list{"--odd"});
  CHECK(of("torchrun --nnodes").remarks[0].is == remark::kind::missing);
  CHECK(of("python -m torch.distributed.launch --nproc_per_node=2 t.py").remarks[0].is ==
        remark::kind::outdated);
  CHECK(*of("python3.11 -u -m torch.distributed.run --nproc_per_node=2 t.py").config.gpus == 2);
  CHECK(of("torchrun a.py\ntorchrun b.py").remarks[0].key == "b.py");
  CHECK_FALSE(of("echo torchrun_is_here"));
  CHECK_FALSE(of("python -m pip install torch"));
}

TEST_CASE("launchers' flags are read in all their forms") {
  struct launch_line {
    const char* script;
    std::int64_t nodes;
    std::int64_t gpus;
  };
  for (const launch_line& one :
       {launch_line{"accelerate launch --num_processes=8 --num_machines 1 t.py", 1, 8},
        launch_line{"accelerate launch --num-processes 8 --num-machines=2 -m t", 2, 8},
        launch_line{"N=8\naccelerate launch --num_machines 1 --num_processes=$N t.py", 1, 8},
        launch_line{
            "export N=${N:-8}\naccelerate launch --num_machines=1 --num_processes \"${N}\" t.py",
            1,
            8},
        launch_line{
            "python -m accelerate.commands.launch --num_machines 2 --num_processes 16 t.py", 2, 16},
        launch_line{"deepspeed --num_gpus=4 t.py", 1, 4},
        launch_line{"G=4; deepspeed --num_gpus $G --num_nodes=2 --master_port=1 t.py", 2, 8},
        launch_line{"deepspeed --include localhost:0,1,2 t.py", 1, 3},
        launch_line{"deepspeed --include=a:0,1@b:4,5 t.py", 2, 4},
        launch_line{"CUDA_VISIBLE_DEVICES=0,1 deepspeed t.py", 1, 2},
        launch_line{"export CUDA_VISIBLE_DEVICES=2,3\ntorchrun --nproc-per-node gpu t.py", 1, 2},
        launch_line{"G=8 N=2\ntorchrun --nproc-per-node=$G --nnodes=${N} t.py", 2, 16},
        launch_line{"NPROC_PER_NODE=4 NNODES=2 llamafactory-cli train a.yaml", 2, 8},
        launch_line{"CUDA_VISIBLE_DEVICES=0,1,2,3 axolotl train a.yaml", 1, 4},
        launch_line{"srun accelerate launch --num_processes 2 --num_machines 2 t.py", 2, 2}}) {
    CAPTURE(one.script);
    const read_config read = read_torchrun(one.script);
    REQUIRE_MESSAGE(read, read.why);
    CHECK(read.remarks.empty());
    REQUIRE(read.config.nodes);
    REQUIRE(read.config.gpus_per_node);
    CHECK(*read.config.nodes == one.nodes);
    CHECK(*read.config.nodes * *read.config.gpus_per_node == one.gpus);
  }
  for (const char* const open : {"accelerate launch --num_processes=$N t.py",
                                 "accelerate launch --num_processes $((N * 8)) t.py",
                                 "deepspeed --num_gpus=$N t.py",
                                 "deepspeed --hostfile hosts t.py",
                                 "deepspeed --include $HOSTS t.py",
                                 "torchrun --nproc-per-node=$N t.py",
                                 "torchrun --nnodes=$N --nproc-per-node=8 t.py"}) {
    CAPTURE(open);
    const read_config read = read_torchrun(open);
    CHECK_FALSE(read.config.gpus);
    CHECK(read.remarks.size() == 1);
  }
  CHECK(read_torchrun("accelerate launch --num_processes 3 --num_machines 2 t.py").remarks[0].is ==
        remark::kind::contradicts);
  CHECK(read_torchrun_words(read_shell_script("trl sft --model_name_or_path a/b")).words ==
        word_list{"--model_name_or_path", "a/b"});
}

TEST_CASE("torchrun's script says the GPUs again") {
  for (std::int64_t nodes = 1; nodes < 20; ++nodes)
    for (std::int64_t gpus = 1; gpus < 17; ++gpus) {
      training_config config;
      config.nodes = nodes;
      config.gpus_per_node = gpus;
      config.gpus = nodes * gpus;
      const written_config written = write_torchrun(config, {.command = "t.py --a b"});
      REQUIRE(written);
      CHECK(written.not_written.empty());
      const read_launch again = read_torchrun_words(read_shell_script(written.files[0].text));
      CHECK(*again.read.config.nodes == nodes);
      CHECK(*again.read.config.gpus_per_node == gpus);
      CHECK(*again.read.config.gpus == nodes * gpus);
      CHECK(again.how.command == "t.py --a b");
    }
}

TEST_CASE("torchrun's writer refuses what is not safe, and names what it cannot say") {
  training_config config;
  CHECK(write_torchrun(config).why.find("not known") != std::string::npos);
  config.gpus = 8;
  CHECK(write_torchrun(config));
  for (const char* const command :
       {"t.py; rm", "t.py $(x)", "", " ", "a  b", "-x", "a 'b'", "a\nb"})
    CHECK_FALSE(write_torchrun(config, {.command = command}));
  CHECK(write_torchrun(config, {.command = "python t.py --a b"}).why ==
        "command 'python t.py --a b': torchrun starts Python itself; the script and its words are "
        "taken, without python");
  CHECK_FALSE(write_torchrun(config, {.name = "A b"}));
  config.nodes = 3;
  CHECK(write_torchrun(config).why == "gpus is 8; a multiple of nodes, 3, is taken");
  config.nodes = 1;
  config.micro_batch = 2;
  CHECK(write_torchrun(config, {.gpu = "h100"}).not_written == word_list{"micro_batch", "gpu"});
}

}  // namespace
