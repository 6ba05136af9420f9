/*
 * network.h - a model as data parallelism sees it: its layers in forward order, what each holds, and what it computes
 * for one sample. Two families:
 *   residual networks   the part "network" of a file of profiles/models: blocks, stem, classes; one unit for each
 *                       convolution with its batch norm, registered as torchvision's resnet.py does (stem, per block
 *                       its convolutions and then its projection, head)
 *   transformers        whatever transformer/arch/arch.h reads: embedding, layers, head
 * The totals that a file states (parameters, tensors, outputs of convolutions, multiplications of one sample) must be
 * those that come out.
 */
#ifndef BB_PROXIES_REPLICAS_NETWORK_H
#define BB_PROXIES_REPLICAS_NETWORK_H

#include "cuda/work/kernel_list.h"
#include "proxies/models/transformer_model.h"
#include "proxies/transformer/arch/arch.h"

struct bb_network_unit {
    char *name;                /* owned                                                       */
    struct bb_tensor *tensors; /* in the order of registration, names owned                   */
    int n;
    double sample_flops;         /* of the forward pass of one sample; backward twice           */
    struct bb_conv conv;         /* a convolution; n and dtype are 0; k == 0: none              */
    int64_t rows, in, out;       /* a dense layer on so many rows of a sample; rows == 0: none  */
    struct bb_transformer layer; /* a transformer's; batch and dtype are 0; heads == 0: none    */
    uint64_t tokens;             /* an embedding of so many; 0: none                            */
};

struct bb_network {
    struct bb_network_unit *units; /* in forward order */
    int n;
    double parameters, sample_flops; /* forward */
    int n_tensors;
    int batch;           /* samples on each rank, unless told otherwise         */
    double outputs;      /* elements that the convolutions put out for one sample */
    struct bb_arch arch; /* of a transformer                                      */
    bool images;         /* convolutions: trained by SGD; else a transformer    */
    bool has_kernels;       /* bb_network_work knows the products of all its units */
};

/* bb_network_load - by name (profiles/models) or path. Unreadable or no network
 * that can be trained whole on a rank: said, -BB_EUSAGE. release is fine on a half-read one. */
int bb_network_load(const char *word, struct bb_network *network) BB_MUST_CHECK;
void bb_network_release(struct bb_network *network);

/* bb_network_activations - bytes that a step keeps for the backward of so many samples: outputs of convolutions and
 * norms, or what transformer/memory.h says. */
double bb_network_activations(const struct bb_network *network, int samples, enum bb_dtype_id dtype);

/* bb_network_work - a unit's products and passes for so many samples, appended to *w. False where numbers don't fit. */
bool bb_network_add_kernels(const struct bb_network *network, int unit, int64_t samples, enum bb_dtype_id dtype, bool backward,
                     struct bb_kernel_list *w);

#endif
