include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# Two components: `development`, what other projects compile with, and `program`, which is installed
# where the examples are built. `cmake --install` without a component installs both.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)
set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gpuplan)
set(include_dir ${CMAKE_INSTALL_INCLUDEDIR})
if(IS_ABSOLUTE "${include_dir}" AND CMAKE_VERSION VERSION_LESS 3.28) # which exports it behind the prefix
  file(RELATIVE_PATH include_dir "${CMAKE_INSTALL_PREFIX}" "${include_dir}")
endif()
install(TARGETS gpuplan gpuplan_io gpuplan_cuda gpuplan_replay EXPORT gpuplan_targets
        FILE_SET HEADERS DESTINATION ${include_dir} FILE_SET fragments DESTINATION ${include_dir})
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
  cmake_path(APPEND cps_libdir "${prefix}" "${CMAKE_INSTALL_LIBDIR}")
  cmake_path(APPEND cps_includedir "${prefix}" "${CMAKE_INSTALL_INCLUDEDIR}")
  set(cps_place "\"cps_path\": \"${cps_libdir}/cps/gpuplan\"")
  if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
    set(cps_place "\"prefix\": \"${CMAKE_INSTALL_PREFIX}\"")
  endif()
  configure_file(cmake/gpuplan.cps.in gpuplan.cps @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/gpuplan.cps DESTINATION ${CMAKE_INSTALL_LIBDIR}/cps/gpuplan)
endif()

# For pkg-config, with paths from where the files lie, so that a moved prefix is right; absolute folders, as
# nixpkgs gives them, stay what they are.
set(pc_prefix ${CMAKE_INSTALL_PREFIX})
if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  file(RELATIVE_PATH pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(PREPEND pc_prefix "\${pcfiledir}/")
endif()
cmake_path(APPEND pc_libdir "\${prefix}" "${CMAKE_INSTALL_LIBDIR}")
cmake_path(APPEND pc_includedir "\${prefix}" "${CMAKE_INSTALL_INCLUDEDIR}")
foreach(name IN ITEMS gpuplan gpuplan-replay)
  configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/licenses/gpuplan)
