# Before packages are built: their manual pages are compressed, as Debian has them.
file(GLOB_RECURSE pages "${CPACK_TEMPORARY_DIRECTORY}/*/gpuplan.1")
foreach(page IN LISTS pages)
  execute_process(COMMAND gzip -9n "${page}" COMMAND_ERROR_IS_FATAL ANY)
endforeach()
