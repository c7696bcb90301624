"""gpuplan for Conan 2: `conan create cmake/packages/conan -s compiler.cppstd=20`.

Boost comes from Conan's center, or from the system: `[platform_requires]` of a profile with `boost/1.74.0`.
"""

import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.files import copy, load


class gpuplan(ConanFile):
    name = "gpuplan"
    description = "Plan GPU training at compile time: memory, batch, learning rate, time, money"
    license = "BSL-1.0"
    topics = ("gpu", "deep-learning", "planning", "constexpr", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    no_copy_source = True

    def _project(self):
        return os.path.join(self.recipe_folder, "..", "..", "..")

    def set_version(self):
        text = load(self, os.path.join(self._project(), "include", "gpuplan", "version.hpp"))
        self.version = ".".join(re.findall(r"#define GPUPLAN_VERSION_\w+ (\d+)", text))

    def export_sources(self):
        for pattern in ("include/gpuplan/*", "LICENSE"):
            copy(self, pattern, src=self._project(), dst=self.export_sources_folder)

    def requirements(self):
        self.requires("boost/[>=1.74 <2]", transitive_headers=True, options={"header_only": True})

    def validate(self):
        check_min_cppstd(self, 20)

    def package_id(self):
        self.info.clear()

    def package(self):
        copy(self, "LICENSE", src=self.source_folder, dst=os.path.join(self.package_folder, "licenses"))
        copy(self, "*", src=os.path.join(self.source_folder, "include"),
             dst=os.path.join(self.package_folder, "include"))

    def package_info(self):
        self.cpp_info.set_property("cmake_target_name", "gpuplan::gpuplan")
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
