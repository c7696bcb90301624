// The CUDA driver of the same device: what PyTorch asks of it beside the runtime.

extern "C" {

int cuDriverGetVersion(int* version) {
  *version = 13020;
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = 1;
  return 0;
}
int cuDevicePrimaryCtxGetState(int /*device*/, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return 0;
}
int cuCtxGetCurrent(void** context) {
  static int any = 0;
  *context = &any;
  return 0;
}
int cuGetErrorString(int /*error*/, const char** text) {
  *text = "not answered";
  return 0;
}

}  // extern "C"
