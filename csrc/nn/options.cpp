// Which options of the module are possible at all.
#include "csrc/nn/options.h"

#include <c10/util/Exception.h>

namespace headwise::nn {

MultiHeadAttentionOptions resolved(MultiHeadAttentionOptions o) {
  TORCH_CHECK_VALUE(o.embed_dim > 0, "embed_dim must be at least 1; got ", o.embed_dim);
  TORCH_CHECK_VALUE(o.num_heads > 0, "num_heads must be at least 1; got ", o.num_heads);
  if (o.num_kv_heads == 0) o.num_kv_heads = o.num_heads;
  TORCH_CHECK_VALUE(o.num_kv_heads > 0 && o.num_heads % o.num_kv_heads == 0,
                    "num_kv_heads must divide num_heads; got num_heads ", o.num_heads,
                    " and num_kv_heads ", o.num_kv_heads);
  if (o.head_dim == 0) {
    TORCH_CHECK_VALUE(o.embed_dim % o.num_heads == 0, "embed_dim ", o.embed_dim,
                      " is not divisible by num_heads ", o.num_heads,
                      ": choose another number of heads or give head_dim");
    o.head_dim = o.embed_dim / o.num_heads;
  }
  TORCH_CHECK_VALUE(o.head_dim > 0 && o.head_dim <= 256, "head_dim must be 1 to 256; got ",
                    o.head_dim);
  if (o.kdim == 0) o.kdim = o.embed_dim;
  if (o.vdim == 0) o.vdim = o.embed_dim;
  TORCH_CHECK_VALUE(o.kdim > 0 && o.vdim > 0, "kdim and vdim must be at least 1; got kdim ", o.kdim,
                    " and vdim ", o.vdim);
  TORCH_CHECK_VALUE(o.dropout >= 0 && o.dropout < 1, "dropout must be in [0, 1); got ", o.dropout);
  TORCH_CHECK_VALUE(o.out_proj || o.num_heads * o.head_dim == o.embed_dim,
                    "without out_proj the heads are the output: num_heads ", o.num_heads,
                    " * head_dim ", o.head_dim, " must equal embed_dim ", o.embed_dim);
  TORCH_CHECK_VALUE(!o.rotary || o.head_dim % 2 == 0,
                    "rotary positions turn pairs of channels; got the odd head_dim ", o.head_dim);
  return o;
}

}  // namespace headwise::nn
