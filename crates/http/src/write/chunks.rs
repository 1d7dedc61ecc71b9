//! A chunked body as a function of the offset (RFC 9112 §7.1): nothing of it is kept, any part can be produced again.

/// A body in chunks of one size, the last one shorter, and the chunk of size 0 at its end.
///
/// ```
/// let body = wirebeat_http::ChunkedBody::new(5, 3).unwrap();
/// let mut bytes = vec![0; body.encoded_len() as usize];
/// body.fill(0, &mut bytes, |offset, into| into.copy_from_slice(&b"Hello"[offset as usize..][..into.len()]));
/// assert_eq!(bytes, b"3\r\nHel\r\n2\r\nlo\r\n0\r\n\r\n");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkedBody {
    body_len: u64,
    chunk_len: u64,
    encoded_len: u64,
}

const LAST: &[u8; 5] = b"0\r\n\r\n";

/// One chunk: its size, CRLF, data, CRLF.
#[derive(Clone, Copy)]
struct Chunk {
    len: u64,
}

impl Chunk {
    /// Bytes of the size line with its CRLF: a digit for each 4 bits.
    fn line_len(self) -> u64 {
        u64::from((u64::BITS - self.len.leading_zeros()).div_ceil(4)) + 2
    }

    /// None if it is beyond 64 bits.
    fn encoded_len(self) -> Option<u64> {
        self.len.checked_add(self.line_len() + 2)
    }

    /// The byte at `at` of the size line.
    fn line_byte(self, at: u64) -> u8 {
        let digits = self.line_len() - 2;
        if at >= digits {
            return if at == digits { b'\r' } else { b'\n' };
        }
        let digit = (self.len >> ((digits - 1 - at) * 4)) & 15;
        b"0123456789abcdef".get(digit as usize).copied().unwrap_or(b'0')
    }
}

impl ChunkedBody {
    /// A body of `body_len` bytes in chunks of `chunk_len`. None if chunks have no length, or the whole is longer than 64
    /// bits can count.
    #[must_use]
    pub fn new(body_len: u64, chunk_len: u64) -> Option<ChunkedBody> {
        let whole = body_len.checked_div(chunk_len)?;
        let rest = Chunk { len: body_len % chunk_len };
        let whole_len = match whole {
            0 => 0,
            _ => Chunk { len: chunk_len }.encoded_len()?.checked_mul(whole)?,
        };
        let rest_len = if rest.len == 0 { 0 } else { rest.encoded_len()? };
        let encoded_len = whole_len.checked_add(rest_len)?.checked_add(LAST.len() as u64)?;
        Some(ChunkedBody { body_len, chunk_len, encoded_len })
    }

    /// Bytes of the body without its framing.
    #[must_use]
    pub fn body_len(&self) -> u64 {
        self.body_len
    }

    /// Bytes of the body with its framing.
    #[must_use]
    pub fn encoded_len(&self) -> u64 {
        self.encoded_len
    }

    /// Writes what stands from `offset` of the encoded body on, and returns how many bytes that are: all of `into`, or what
    /// is left. `payload` writes the body's bytes from an offset of the body on; it is called once for each chunk that has data
    /// in `into`, in their order.
    pub fn fill(
        &self,
        offset: u64,
        into: &mut [u8],
        mut payload: impl FnMut(u64, &mut [u8]),
    ) -> usize {
        let (mut offset, mut filled) = (offset, 0);
        while offset < self.encoded_len {
            let Some(room) = into.get_mut(filled..).filter(|room| !room.is_empty()) else { break };
            let len = self.fill_some(offset, room, &mut payload);
            filled += len;
            offset += len as u64;
        }
        filled
    }

    /// As `fill`, up to the end of a chunk at most, and at least one byte.
    fn fill_some(
        &self,
        offset: u64,
        into: &mut [u8],
        payload: &mut impl FnMut(u64, &mut [u8]),
    ) -> usize {
        // As long as there is a whole chunk, `new` has counted its bytes.
        let whole_len = Chunk { len: self.chunk_len }.encoded_len().unwrap_or(u64::MAX);
        let index = (offset / whole_len).min(self.body_len / self.chunk_len);
        let body_offset = index * self.chunk_len;
        let at = offset - index * whole_len;
        let chunk = Chunk { len: self.chunk_len.min(self.body_len - body_offset) };
        let rest_len = if chunk.len == 0 { 0 } else { chunk.encoded_len().unwrap_or(u64::MAX) };
        if at >= rest_len {
            return copy(LAST, at - rest_len, into);
        }
        let data = chunk.line_len();
        let mut filled = 0;
        while filled < into.len() {
            let at = at + filled as u64;
            let Some(room) = into.get_mut(filled..) else { break };
            if at < data {
                if let Some(byte) = room.first_mut() {
                    *byte = chunk.line_byte(at);
                }
                filled += 1;
            } else if at < data + chunk.len {
                let len =
                    room.len().min(usize::try_from(data + chunk.len - at).unwrap_or(usize::MAX));
                if let Some(room) = room.get_mut(..len) {
                    payload(body_offset + (at - data), room);
                }
                filled += len;
            } else {
                filled += copy(b"\r\n", at - data - chunk.len, room);
                break;
            }
        }
        filled
    }
}

/// Copies from `at` on what there is room for.
fn copy(from: &[u8], at: u64, into: &mut [u8]) -> usize {
    let from = usize::try_from(at).ok().and_then(|at| from.get(at..)).unwrap_or(&[]);
    let len = from.len().min(into.len());
    if let (Some(from), Some(into)) = (from.get(..len), into.get_mut(..len)) {
        into.copy_from_slice(from);
    }
    len
}
