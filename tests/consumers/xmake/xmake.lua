-- Takes the library by the package of cmake/packages/xmake.
add_repositories("gpuplan ../../../cmake/packages/xmake")
add_requires("gpuplan")

target("consumer")
    set_kind("binary")
    set_languages("c++20")
    add_files("../plan.cpp", "../second.cpp")
    add_packages("gpuplan")
