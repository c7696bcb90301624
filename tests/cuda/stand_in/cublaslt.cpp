// cuBLASLt's calls.

#include "cublaslt.hpp"

#include "world.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace stand_in {
namespace {

struct state {
  matmul_script script;
  std::vector<matmul> asked;
};
state& it() {
  static state one = [] {
    at_reset([] { it() = {}; });
    return state{};
  }();
  return one;
}

// What a descriptor holds, in its type's order of attributes.
struct attributes {
  std::map<int, std::vector<unsigned char>> held;

  template <class T>
  void set(int attribute, T value) {
    put(attribute, &value, sizeof value);
  }
  void put(int attribute, const void* value, std::size_t bytes) {
    const auto* first = static_cast<const unsigned char*>(value);
    held[attribute].assign(first, first + bytes);
  }
  template <class T>
  void get(int attribute, T& value) const {
    const auto found = held.find(attribute);
    if (found != held.end() && found->second.size() == sizeof value)
      std::memcpy(&value, found->second.data(), sizeof value);
  }
};

template <class Handle>
attributes& of(Handle handle) {
  return *reinterpret_cast<attributes*>(handle);
}

cublasStatus_t enter_cublas(const char* function) {
  return static_cast<cublasStatus_t>(enter(function));
}

template <class Handle>
cublasStatus_t create(const char* function, Handle* handle) {
  if (const cublasStatus_t refused = enter_cublas(function); refused != CUBLAS_STATUS_SUCCESS)
    return refused;
  *handle = reinterpret_cast<Handle>(new attributes);
  ++made().others[function];
  return CUBLAS_STATUS_SUCCESS;
}

template <class Handle>
cublasStatus_t destroy(const char* function, const char* maker, Handle handle) {
  const cublasStatus_t status = enter_cublas(function);
  delete reinterpret_cast<attributes*>(handle);
  --made().others[maker];
  return status;
}

template <class Handle>
cublasStatus_t put(
    const char* function, Handle handle, int attribute, const void* value, std::size_t bytes) {
  if (const cublasStatus_t refused = enter_cublas(function); refused != CUBLAS_STATUS_SUCCESS)
    return refused;
  if (value == nullptr || bytes == 0) return CUBLAS_STATUS_INVALID_VALUE;
  of(handle).put(attribute, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

matmul::matrix read(cublasLtMatrixLayout_t layout) {
  matmul::matrix m;
  const attributes& held = of(layout);
  held.get(CUBLASLT_MATRIX_LAYOUT_TYPE, m.type);
  held.get(CUBLASLT_MATRIX_LAYOUT_ROWS, m.rows);
  held.get(CUBLASLT_MATRIX_LAYOUT_COLS, m.columns);
  held.get(CUBLASLT_MATRIX_LAYOUT_LD, m.leading);
  held.get(CUBLASLT_MATRIX_LAYOUT_ORDER, m.order);
  return m;
}

}  // namespace

matmul_script& current_matmul() { return it().script; }
const std::vector<matmul>& matmuls() { return it().asked; }

}  // namespace stand_in

using namespace stand_in;

extern "C" {

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    default:
      return "CUBLAS_STATUS_OF_THE_STAND_IN";
  }
}
const char* cublasLtGetStatusString(cublasStatus_t) { return "a status of the stand-in"; }
std::size_t cublasLtGetVersion() { return 130000; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) { return create(__func__, handle); }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return destroy(__func__, "cublasLtCreate", handle);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made_here,
                                        cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  const cublasStatus_t status = create(__func__, made_here);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  of(*made_here).set(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, compute);
  of(*made_here).set(CUBLASLT_MATMUL_DESC_SCALE_TYPE, scale);
  return status;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle) {
  return destroy(__func__, "cublasLtMatmulDescCreate", handle);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value,
                                              std::size_t bytes) {
  return put(__func__, handle, attribute, value, bytes);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made_here,
                                          cudaDataType type,
                                          std::uint64_t rows,
                                          std::uint64_t columns,
                                          std::int64_t leading) {
  const cublasStatus_t status = create(__func__, made_here);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  of(*made_here).set(CUBLASLT_MATRIX_LAYOUT_TYPE, type);
  of(*made_here).set(CUBLASLT_MATRIX_LAYOUT_ROWS, rows);
  of(*made_here).set(CUBLASLT_MATRIX_LAYOUT_COLS, columns);
  of(*made_here).set(CUBLASLT_MATRIX_LAYOUT_LD, leading);
  return status;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle) {
  return destroy(__func__, "cublasLtMatrixLayoutCreate", handle);
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t handle,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value,
                                                std::size_t bytes) {
  return put(__func__, handle, attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made_here) {
  return create(__func__, made_here);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t handle) {
  return destroy(__func__, "cublasLtMatmulPreferenceCreate", handle);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value,
                                                    std::size_t bytes) {
  return put(__func__, handle, attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t,
                                              cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t preference,
                                              int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* count) {
  *count = 0;
  if (const cublasStatus_t refused = enter_cublas(__func__); refused != CUBLAS_STATUS_SUCCESS)
    return refused;
  std::uint64_t allowed = 0;
  of(preference).get(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, allowed);
  const matmul_script& s = current_matmul();
  if (s.workspace_bytes <= allowed) *count = std::min(requested, s.algorithms);
  for (int i = 0; i < *count; ++i) {
    results[i] = {};
    results[i].algo.data[0] = static_cast<std::uint64_t>(i);
    results[i].workspaceSize = s.workspace_bytes;
    results[i].state = CUBLAS_STATUS_SUCCESS;
    results[i].wavesCount = 1;
  }
  return *count > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t,
                              cublasLtMatmulDesc_t description,
                              const void* alpha,
                              const void* a,
                              cublasLtMatrixLayout_t a_layout,
                              const void* b,
                              cublasLtMatrixLayout_t b_layout,
                              const void* beta,
                              const void* c,
                              cublasLtMatrixLayout_t c_layout,
                              void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm,
                              void*,
                              std::size_t workspace_bytes,
                              cudaStream_t stream) {
  if (const cublasStatus_t refused = enter_cublas(__func__); refused != CUBLAS_STATUS_SUCCESS)
    return refused;
  CUstream_st* on = find_stream(stream);
  if (on == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  matmul m;
  const attributes& held = of(description);
  held.get(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, m.compute);
  held.get(CUBLASLT_MATMUL_DESC_SCALE_TYPE, m.scale);
  held.get(CUBLASLT_MATMUL_DESC_TRANSA, m.transpose_a);
  held.get(CUBLASLT_MATMUL_DESC_TRANSB, m.transpose_b);
  held.get(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, m.a_scale);
  held.get(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, m.b_scale);
  m.a = read(a_layout);
  m.b = read(b_layout);
  m.c = read(c_layout);
  m.d = read(d_layout);
  m.alpha = alpha;
  m.a_data = a;
  m.b_data = b;
  m.beta = beta;
  m.c_data = c;
  m.d_data = d;
  m.algorithm = algorithm == nullptr ? 0 : static_cast<int>(algorithm->data[0]);
  m.workspace_bytes = workspace_bytes;
  if (workspace_bytes < current_matmul().workspace_bytes) return CUBLAS_STATUS_INVALID_VALUE;
  put_on(*on, current_matmul().seconds ? current_matmul().seconds(m) : 1e-3);
  if (current_matmul().body) current_matmul().body(m);
  it().asked.push_back(m);
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
