#include "common.h"
SEC("xdp") int tx(struct xdp_md*c){ return bpf_redirect_map(&egress,0,0);}
SEC("xdp") int rx(struct xdp_md*c){ COUNT(); return XDP_DROP;}
