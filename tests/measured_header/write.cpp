// Writes what nobody measured of an imaginary device to the file named.

#include <gpuplan/io/measured_device.hpp>

#include <fstream>

#include "imaginary_device.hpp"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::ofstream file(argv[1], std::ios::binary);
  file << to_header(gpuplan::io::record_of(imaginary_device::in_full), "written_device");
  return file.flush() ? 0 : 1;
}
