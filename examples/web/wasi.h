#pragma once

// What WASI leaves out of POSIX and the program calls. There a file has no owner, nothing has a
// size in characters, and no signal comes.

#include <sys/stat.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct winsize {
  unsigned short ws_col;
};
enum { TIOCGWINSZ = 0x5413 };  // which ioctl refuses

struct sigaction {
  void (*sa_handler)(int);
  unsigned sa_mask;
};
static inline int sigaction(int, const struct sigaction*, struct sigaction*) { return -1; }
static inline int sigemptyset(unsigned*) { return 0; }

static inline mode_t umask(mode_t) { return 0; }
static inline int no_modes(int, mode_t) { return 0; }
#define fchmod no_modes  // WASI's own always fails
int mkostemp(char* name, int flags);
ssize_t copy_file_range(int from, off_t* at, int to, off_t* to_at, size_t count, unsigned flags);

#ifdef __cplusplus
}
#endif
