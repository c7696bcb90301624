// expect-match: static
// expect-macth: misspelt
static_assert(sizeof(int) == 0, "misspelt");
int main() {}
