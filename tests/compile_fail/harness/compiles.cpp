// expect-match: static assertion failed
int main() {}
