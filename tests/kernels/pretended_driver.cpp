// CUDA's driver for tests: "modules" are paths of host libraries, and launching a kernel calls a function of them.
#include <dlfcn.h>

#include <cstdint>
#include <map>

using Kernel = void (*)(const void*, int64_t, int64_t);

static std::map<void*, int> allowed;  // shared memory, by function

extern "C" {
int cuStreamGetCtx(void*, void** context) { return *context = &allowed, 0; }
int cuCtxSetCurrent(void* context) { return context == &allowed ? 0 : 201; }
int cuModuleLoadData(void** module, const void* image) {
  *module = dlopen(static_cast<const char*>(image), RTLD_NOW);
  return *module ? 0 : 200;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  *function = dlsym(module, name);
  return *function ? 0 : 500;
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
  allowed[function] = value;
  return attribute == 8 ? 0 : 1;
}
int cuLaunchKernel(void* function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                   unsigned bytes, void*, void** parameters, void**) {
  if (threads == 0 || threads > 1024 || int(bytes) > allowed[function]) return 701;
  reinterpret_cast<Kernel>(function)(parameters[0], blocks, bytes);
  return 0;
}
int cuGetErrorString(int, const char** text) { return *text = "pretended", 0; }
}
