#pragma once

// Columns of remarks: "flag=superseded; mtp=1; repeat 1/2 of torchtitan_0043".

#include <optional>
#include <string>
#include <string_view>

namespace accuracy {

/// The text with its letters as small ones.
std::string lower(std::string_view text);

/// What follows `name=` up to the next semicolon; blank where it is not there.
std::string_view value_in(std::string_view notes, std::string_view name);

/// Whether the row is doubtful: a remark that begins with `flag=` or `flag:`.
bool is_flagged(std::string_view notes);

/// The id of the configuration that this row measures once more; blank where it is none.
std::string_view repeated_id(std::string_view notes);

}  // namespace accuracy
