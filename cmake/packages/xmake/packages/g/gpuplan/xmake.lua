-- add_repositories("gpuplan cmake/packages/xmake"), add_requires("gpuplan")
package("gpuplan")
    set_kind("library", {headeronly = true})
    set_description("Plan GPU training at compile time: memory, batch, learning rate, time, money")
    set_license("BSL-1.0")
    set_sourcedir(path.join(os.scriptdir(), "..", "..", "..", "..", "..", ".."))

    add_deps("boost >=1.74", {configs = {units = true}})

    on_install(function (package)
        os.cp("include/gpuplan", package:installdir("include"))
    end)

    on_test(function (package)
        assert(package:check_cxxsnippets({test = [[
            #include <gpuplan/solver.hpp>
            static_assert(gpuplan::batch_plan{.micro_batch = 2, .data_parallel = 4}.effective_batch() == 8);
        ]]}, {configs = {languages = "c++20"}}))
    end)
