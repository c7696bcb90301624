# An overlay port: `vcpkg install gpuplan --overlay-ports=cmake/packages/vcpkg`. It takes the sources that
# it stands in; a port of a registry takes the archive of a release instead.
set(SOURCE_PATH "${CURRENT_PORT_DIR}/../../../..")

vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS -DGPUPLAN_BUILD_TESTS=OFF -DGPUPLAN_BUILD_EXAMPLES=OFF -DGPUPLAN_BUILD_BENCHMARKS=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/gpuplan)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
