// expect-match: static
// forbid-match: unwanted
static_assert(sizeof(int) == 0, "unwanted");
int main() {}
