#include "common.h"
SEC("xdp") int tx(struct xdp_md*c){ sum+=bpf_ktime_get_ns(); return bpf_redirect_map(&egress,0,0);}
SEC("xdp") int rx(struct xdp_md*c){ COUNT(); sum+=bpf_ktime_get_ns(); return XDP_DROP;}
