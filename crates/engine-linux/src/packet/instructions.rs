//! Instructions of classic BPF (`linux/filter.h`, `Documentation/networking/filter.rst`), as the filters of packet sockets are made of.
//!
//! Knows nothing of what is filtered. Tests run programs by what stands here, and by the instructions of it alone.

/// A return value for "the whole frame".
pub(super) const ALL: u32 = u32::MAX;

pub(super) const LOAD_HALF: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
pub(super) const LOAD_BYTE: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
pub(super) const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
pub(super) const LOAD_LEN: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_LEN) as u16;
pub(super) const LOAD_INDEXED_HALF: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_IND) as u16;
pub(super) const LOAD_INDEXED_BYTE: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_IND) as u16;
pub(super) const LOAD_MEMORY: u16 = (libc::BPF_LD | libc::BPF_MEM) as u16;
pub(super) const STORE: u16 = libc::BPF_ST as u16;
pub(super) const INDEX: u16 = (libc::BPF_LDX | libc::BPF_W | libc::BPF_IMM) as u16;
pub(super) const INDEX_MEMORY: u16 = (libc::BPF_LDX | libc::BPF_MEM) as u16;
pub(super) const TO_INDEX: u16 = (libc::BPF_MISC | libc::BPF_TAX) as u16;
pub(super) const FROM_INDEX: u16 = (libc::BPF_MISC | libc::BPF_TXA) as u16;
pub(super) const ADD: u16 = (libc::BPF_ALU | libc::BPF_ADD | libc::BPF_K) as u16;
pub(super) const ADD_INDEX: u16 = (libc::BPF_ALU | libc::BPF_ADD | libc::BPF_X) as u16;
pub(super) const SUBTRACT: u16 = (libc::BPF_ALU | libc::BPF_SUB | libc::BPF_K) as u16;
pub(super) const MULTIPLY: u16 = (libc::BPF_ALU | libc::BPF_MUL | libc::BPF_K) as u16;
pub(super) const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
pub(super) const SHIFT_LEFT: u16 = (libc::BPF_ALU | libc::BPF_LSH | libc::BPF_K) as u16;
pub(super) const SHIFT_RIGHT: u16 = (libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K) as u16;
pub(super) const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
pub(super) const JUMP_SET: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
pub(super) const JUMP_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
pub(super) const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
pub(super) const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// Where a load finds `skb->pkt_type`.
pub(super) const PACKET_TYPE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;

pub(super) const fn op(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: 0, jf: 0, k }
}

/// Goes on `then` or `otherwise` instructions further than the next.
pub(super) const fn when(value: u32, then: u8, otherwise: u8) -> libc::sock_filter {
    libc::sock_filter { code: JUMP_EQUAL, jt: then, jf: otherwise, k: value }
}

/// What the kernel would return for `frame`: the instructions above, and no others.
#[cfg(test)]
pub(super) fn run(program: &[libc::sock_filter], frame: &[u8], packet_type: u32) -> u32 {
    let byte = |at: u32| frame.get(at as usize).map(|&byte| u32::from(byte));
    let half = |at: u32| byte(at).zip(byte(at.wrapping_add(1))).map(|(high, low)| high << 8 | low);
    let mut memory = [None; libc::BPF_MEMWORDS as usize];
    let (mut at, mut accumulator, mut index) = (0, 0_u32, 0_u32);
    loop {
        let op = program[at];
        at += 1;
        let mut go = |goes: bool| at += usize::from(if goes { op.jt } else { op.jf });
        let loaded = match op.code {
            RETURN => return op.k,
            JUMP => {
                at += op.k as usize;
                continue;
            }
            JUMP_SET => {
                go(accumulator & op.k != 0);
                continue;
            }
            JUMP_EQUAL => {
                go(accumulator == op.k);
                continue;
            }
            JUMP_AT_LEAST => {
                go(accumulator >= op.k);
                continue;
            }
            TO_INDEX => {
                index = accumulator;
                continue;
            }
            INDEX => {
                index = op.k;
                continue;
            }
            INDEX_MEMORY => {
                index = memory[op.k as usize].expect("it was stored");
                continue;
            }
            STORE => {
                memory[op.k as usize] = Some(accumulator);
                continue;
            }
            LOAD_MEMORY => Some(memory[op.k as usize].expect("it was stored")),
            FROM_INDEX => Some(index),
            LOAD_WORD if op.k == PACKET_TYPE => Some(packet_type),
            LOAD_LEN => Some(frame.len() as u32),
            ADD => Some(accumulator.wrapping_add(op.k)),
            ADD_INDEX => Some(accumulator.wrapping_add(index)),
            SUBTRACT => Some(accumulator.wrapping_sub(op.k)),
            MULTIPLY => Some(accumulator.wrapping_mul(op.k)),
            AND => Some(accumulator & op.k),
            SHIFT_LEFT => Some(accumulator << op.k),
            SHIFT_RIGHT => Some(accumulator >> op.k),
            LOAD_BYTE => byte(op.k),
            LOAD_HALF => half(op.k),
            LOAD_INDEXED_BYTE => byte(index.wrapping_add(op.k)),
            LOAD_INDEXED_HALF => half(index.wrapping_add(op.k)),
            code => panic!("unknown instruction {code:#x}"),
        };
        match loaded {
            Some(value) => accumulator = value,
            // a load beyond the frame drops it
            None => return 0,
        }
    }
}
