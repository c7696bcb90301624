#pragma once

// The command line of the accuracy program.

namespace accuracy {

/// Reads the files named, predicts what their rows measured, and prints the errors. The exit
/// status: 0; 1 with a message where standard output cannot be written; 2 with a message, and
/// nothing on standard output, for a bad file or command line.
int run(int argc, char** argv);

}  // namespace accuracy
