#include "wasi.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

int mkostemp(char* name, int flags) {
  char* const digits = name + strlen(name) - 6;
  for (int draft = 0; draft < 1000000; ++draft) {
    for (int at = 5, left = draft; at >= 0; --at, left /= 10) digits[at] = (char)('0' + left % 10);
    const int file = open(name, flags | O_RDWR | O_CREAT | O_EXCL, 0600);
    if (file >= 0 || errno != EEXIST) return file;
  }
  return -1;
}

ssize_t copy_file_range(int from, off_t* at, int to, off_t* to_at, size_t count, unsigned flags) {
  (void)from, (void)at, (void)to, (void)to_at, (void)count, (void)flags;
  errno = ENOSYS;
  return -1;
}

// What C++ throws in WebAssembly: an address. LLVM has this in compiler-rt, which zig's package
// leaves out.
__asm__(
    ".globl __cpp_exception\n"
    ".tagtype __cpp_exception i32\n"
    "__cpp_exception:\n");

// Nothing is tidied up at the end, since the memory ends too; and of yaml-cpp's regular expressions
// clang registers a destructor of another type than libc calls, which WebAssembly forbids.
int __cxa_atexit(void (*function)(void*), void* of, void* library) {
  (void)function, (void)of, (void)library;
  return 0;
}
