// Ops call each other by name, through the dispatcher.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace headwise::ops {

template <typename Signature>
c10::TypedOperatorHandle<Signature> find_op(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

}  // namespace headwise::ops
