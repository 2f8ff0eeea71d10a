// What nearly every file that sees torch includes anyway; compiled once per build.
#pragma once
#include <ATen/ATen.h>
#include <torch/autograd.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>
