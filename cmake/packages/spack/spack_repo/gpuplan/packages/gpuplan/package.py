# spack repo add cmake/packages/spack/spack_repo/gpuplan && spack install gpuplan
import pathlib

from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Gpuplan(CMakePackage):
    """Plan GPU training at compile time: memory, batch, learning rate, time, money."""

    homepage = "https://gpuplan.example"
    # The clone that this file lies in; a package of Spack's own takes the archive of a release instead.
    git = pathlib.Path(__file__).resolve().parents[7].as_uri()
    license("BSL-1.0")

    version("main", branch="main")

    variant("program", default=True, description="Build the program gpuplan")

    depends_on("cxx", type="build")
    depends_on("cmake@3.24:", type="build")
    depends_on("boost@1.74:", type=("build", "link", "run"))
    with when("+program"):
        depends_on("cli11@2.1:", type="build")
        depends_on("eigen@3.4:", type="build")
        depends_on("nlohmann-json@3.11:", type="build")
        depends_on("yaml-cpp@0.7:")
        depends_on("tomlplusplus@3.3:")

    conflicts("%gcc@:11", msg="C++20 of g++ 12 or later is needed")
    conflicts("%clang@:13", msg="C++20 of clang 14 or later is needed")

    def cmake_args(self):
        return [
            self.define("GPUPLAN_BUILD_TESTS", False),
            self.define("GPUPLAN_BUILD_BENCHMARKS", False),
            self.define("GPUPLAN_WARNINGS", False),
            self.define_from_variant("GPUPLAN_BUILD_EXAMPLES", "program"),
        ]
