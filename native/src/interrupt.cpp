#include "interrupt.hpp"

#include <csignal>
#include <mutex>

namespace eqt {
namespace {

std::mutex mutex;
int watching = 0;  // calls that run
bool installed = false;
struct sigaction previous;
Flag interrupted{0};

void take_note(int signal, siginfo_t* information, void* context) {
  set(&interrupted);
  if (previous.sa_flags & SA_SIGINFO) previous.sa_sigaction(signal, information, context);
  else previous.sa_handler(signal);
}

// Whether the process would have handled the signal: where it is ignored, or ends the process, it still does.
bool handled(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) && action.sa_sigaction == take_note;
}

}  // namespace

InterruptWatch::InterruptWatch() {
  const std::lock_guard<std::mutex> lock(mutex);
  if (watching++ > 0) return;
  interrupted.store(0, std::memory_order_relaxed);
  struct sigaction found;
  if (sigaction(SIGINT, nullptr, &found) != 0 || !handled(found) || is_ours(found)) return;
  previous = found;
  struct sigaction ours = found;
  ours.sa_flags |= SA_SIGINFO;
  ours.sa_sigaction = take_note;
  installed = sigaction(SIGINT, &ours, nullptr) == 0;
}

InterruptWatch::~InterruptWatch() {
  const std::lock_guard<std::mutex> lock(mutex);
  if (--watching > 0 || !installed) return;
  installed = false;
  struct sigaction found;
  // A handler that someone else set meanwhile stays.
  if (sigaction(SIGINT, nullptr, &found) == 0 && is_ours(found)) sigaction(SIGINT, &previous, nullptr);
}

const Flag* InterruptWatch::flag() { return &interrupted; }

}  // namespace eqt
