// expect-match: static (assertion|assert) .*the stated reason
static_assert(sizeof(int) == 0, "another reason");
int main() {}
