include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# Two components: `development`, what other projects compile with, and `program`, which is installed
# where the examples are built. `cmake --install` without a component installs both.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)
set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gpuplan)
install(TARGETS gpuplan gpuplan_cuda gpuplan_replay EXPORT gpuplan_targets
        FILE_SET HEADERS FILE_SET fragments)
install(
  EXPORT gpuplan_targets
  NAMESPACE gpuplan::
  FILE gpuplan-targets.cmake
  DESTINATION ${config_dir})
# Before 1.0 a minor version may change names and estimates.
write_basic_package_version_file(gpuplan-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/gpuplan-config.cmake cmake/gpuplan-validate.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/gpuplan-config-version.cmake
        DESTINATION ${config_dir})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/licenses/gpuplan)
