// What nearly every file that sees torch includes anyway; compiled once per build.
#pragma once
#include <ATen/ATen.h>
#include <torch/autograd.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>
