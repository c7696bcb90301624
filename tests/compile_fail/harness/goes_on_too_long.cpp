// expect-match: static
// max-lines: 3
static_assert(sizeof(int) == 0, "one");
static_assert(sizeof(int) == 0, "two");
int main() {}
