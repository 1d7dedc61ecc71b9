#include "common.h"
__u64 src[8];
SEC("xdp") int tx(struct xdp_md*c){ __u64*d=(void*)(long)c->data; void*e=(void*)(long)c->data_end; if((void*)d+60>e) return XDP_DROP;
 __u64 n=bpf_ktime_get_ns(); d[0]=src[0];d[1]=src[1];d[2]=src[2];d[3]=src[3];d[4]=src[4];d[5]=src[5];d[6]=n;*(__u32*)(d+7)=src[7];
 return bpf_redirect_map(&egress,0,0);}
SEC("xdp") int rx(struct xdp_md*c){ COUNT(); __u64 n=bpf_ktime_get_ns(); __u64*d=(void*)(long)c->data; void*e=(void*)(long)c->data_end; if((void*)d+60>e) return XDP_DROP; sum+=n-d[6]; return XDP_DROP;}
