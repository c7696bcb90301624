include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# Two components: `development`, what other projects compile with, and `program`, which is installed
# where the examples are built. `cmake --install` without a component installs both.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)
set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gpuplan)
install(TARGETS gpuplan gpuplan_io gpuplan_cuda gpuplan_replay EXPORT gpuplan_targets
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
# The same as a common package specification. Off unless asked for: CMake 4.3 reads it in place of the files
# above, and it has no words for gpuplan::io, gpuplan::cuda and gpuplan_validate.
if(GPUPLAN_INSTALL_CPS)
  set(prefix "@prefix@") # a word of the specification
  configure_file(cmake/gpuplan.cps.in gpuplan.cps @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/gpuplan.cps DESTINATION ${CMAKE_INSTALL_LIBDIR}/cps/gpuplan)
endif()

# For pkg-config, with paths from where the files lie, so that a moved prefix is right.
file(RELATIVE_PATH from_pkgconfig /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
foreach(name IN ITEMS gpuplan gpuplan-replay)
  configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/licenses/gpuplan)
