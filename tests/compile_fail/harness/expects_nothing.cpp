static_assert(sizeof(int) == 0, "and states no expectation");
int main() {}
