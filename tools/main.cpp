#include "build_info.h"

#include <cstdio>

int main() { std::puts("covnoise " COVNOISE_VERSION); }
