// import gpuplan; is the library with the memory of steps, without io/, measure/ and cuda/. What the headers
// include of others stands first, so that it belongs to no module; what they declare is attached to none
// either, so that one program may import it in one file and include headers in another. Macros are not
// exported: the version is in <gpuplan/version.hpp>.
module;
#include <algorithm>
#include <array>
#include <bit>
#include <boost/units/base_dimension.hpp>
#include <boost/units/base_unit.hpp>
#include <boost/units/base_units/information/byte.hpp>
#include <boost/units/base_units/si/second.hpp>
#include <boost/units/derived_dimension.hpp>
#include <boost/units/make_system.hpp>
#include <boost/units/quantity.hpp>
#include <boost/units/unit.hpp>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

export module gpuplan;

export extern "C++" {
#include <gpuplan/gpuplan.hpp>
#include <gpuplan/memory/layouts.hpp>
}
