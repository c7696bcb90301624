# `cpack -G DEB` in a Release build: libgpuplan-dev with what other projects compile with, gpuplan with the program.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "the gpuplan authors <maintainers@gpuplan.example>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL development program)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
                                                WORLD_READ WORLD_EXECUTE)

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libgpuplan-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libboost-dev (>= 1.74)")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS
    "gpuplan, nlohmann-json3-dev (>= 3.11), libyaml-cpp-dev, libtomlplusplus-dev")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
    "plans the training of models on GPUs while C++ compiles - headers
 A header-only C++20 library: memory of a training step to the byte,
 batches, parallel layouts, learning rates, time and money, at run time or
 as constants. A configuration that would run out of memory does not
 compile.")

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME gpuplan)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION
    "plans the training of models on GPUs
 Says what fits a GPU, which micro-batch and parallel layout to take, how
 long a run takes and what it costs; reads a model's config.json and
 trainers' files, and writes them.")

# What Debian's policy wants beside the files of the components.
string(TIMESTAMP year "%Y")
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(READ ${CMAKE_CURRENT_SOURCE_DIR}/LICENSE licence)
string(REGEX REPLACE "\n\n" "\n.\n" licence "${licence}")
string(REGEX REPLACE "(^|\n)([^\n])" "\\1 \\2" licence "${licence}")
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/debian/copyright
     "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: gpuplan

Files: *
Copyright: ${year} the gpuplan authors
License: BSL-1.0

License: BSL-1.0
${licence}")
foreach(component IN ITEMS development program)
  string(TOUPPER ${component} upper)
  set(name ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/debian/${name})
  file(WRITE ${folder}/changelog.Debian
       "${name} (${PROJECT_VERSION}) unstable; urgency=medium\n\n  * See CHANGELOG.md of the sources.\n\n"
       " -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
  # Of a version without a revision of Debian's the file is called changelog.gz.
  execute_process(COMMAND gzip -9nc ${folder}/changelog.Debian OUTPUT_FILE ${folder}/changelog.gz)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/debian/copyright ${folder}/changelog.gz
          DESTINATION share/doc/${name} COMPONENT ${component} EXCLUDE_FROM_ALL)
endforeach()
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/compress_manual.cmake)
include(CPack)
