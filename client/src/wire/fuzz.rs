//! Fuzz tests of the decoders: no bytes make them panic, and no message decodes from two different
//! strings of bytes. A failure prints its seed; set `LEAF_FUZZ_SEED` to run the same bytes again.

use super::*;
use fastrand::Rng;

/// Prints the seed of the random numbers if the test fails.
struct Seed(u64);

impl Seed {
    fn rng() -> (Self, Rng) {
        let seed = std::env::var("LEAF_FUZZ_SEED")
            .map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
        (Self(seed), Rng::with_seed(seed))
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("run again with LEAF_FUZZ_SEED={}", self.0);
        }
    }
}

/// Changes a few bytes of `frame`, or its length, or all of it.
fn mutate(rng: &mut Rng, frame: &mut Vec<u8>, others: &[Vec<u8>]) {
    match rng.u8(..16) {
        0 => {
            // Noise, with a valid length half of the time.
            frame.resize(rng.usize(..64), 0);
            rng.fill(frame);
            if rng.bool() {
                relength(frame);
            }
        }
        1 | 2 => {
            frame.truncate(rng.usize(..=frame.len()));
            if rng.bool() {
                relength(frame);
            }
        }
        3 | 4 => {
            let extra = rng.usize(1..16);
            frame.extend(std::iter::repeat_with(|| rng.u8(..)).take(extra));
            if rng.bool() {
                relength(frame);
            }
        }
        5 => {
            // The start of one message and the end of another.
            let other = rng.choice(others).unwrap();
            frame.truncate(rng.usize(..=frame.len()));
            frame.extend_from_slice(&other[rng.usize(..=other.len())..]);
            relength(frame);
        }
        6 | 7 => {
            // Eight bytes that look like a length, at any position.
            let value = match rng.u8(..4) {
                0 => rng.u64(..32),
                1 => u64::MAX - rng.u64(..4),
                2 => 1 << rng.u32(..64),
                _ => rng.u64(..),
            };
            let at = rng.usize(..frame.len());
            for (to, from) in frame[at..].iter_mut().zip(value.to_le_bytes()) {
                *to = from;
            }
            if rng.bool() {
                relength(frame);
            }
        }
        8 => {
            let at = rng.usize(..frame.len());
            frame.drain(at..(at + rng.usize(..9)).min(frame.len()));
            relength(frame);
        }
        9 => {
            let at = rng.usize(..=frame.len());
            frame.insert(at, rng.u8(..));
            relength(frame);
        }
        _ => {
            for _ in 0..rng.u8(1..4) {
                let at = rng.usize(..frame.len());
                frame[at] ^= 1 << rng.u8(..8);
            }
        }
    }
}

fn relength(frame: &mut Vec<u8>) {
    if frame.len() < HEADER_LEN {
        frame.resize(HEADER_LEN, 0);
    }
    let len = u32::try_from(frame.len() - HEADER_LEN).unwrap();
    frame[..HEADER_LEN].copy_from_slice(&len.to_be_bytes());
}

/// Passes `rounds` mutated frames to `decode`, which returns whether the body decoded. Returns how
/// many did.
fn feed(
    rounds: u32,
    valid: &[Vec<u8>],
    limit: usize,
    mut decode: impl FnMut(&[u8]) -> bool,
) -> u32 {
    let (_seed, mut rng) = Seed::rng();
    let (mut frame, mut decoded) = (Vec::new(), 0);
    for _ in 0..rounds {
        frame.clear();
        frame.extend_from_slice(rng.choice(valid).unwrap());
        mutate(&mut rng, &mut frame, valid);
        if let Ok(Some((body, rest))) = split_frame(&frame, limit) {
            assert_eq!(HEADER_LEN + body.len() + rest.len(), frame.len());
            decoded += u32::from(decode(body));
        }
    }
    decoded
}

#[test]
fn no_bytes_make_the_request_decoder_panic_and_each_request_has_one_encoding() {
    let valid: Vec<_> = golden::requests().into_iter().map(|(golden, _)| golden).collect();
    let mut out = Vec::new();
    let decoded = feed(1_000_000, &valid, MAX_REQUEST_LEN, |body| match decode_request(body) {
        Ok(request) => {
            out.clear();
            encode_request(&request, &mut out);
            assert_eq!(&out[HEADER_LEN..], body);
            true
        }
        Err(error) => {
            let code = error.error.code();
            assert!(matches!(code, ErrorCode::Malformed | ErrorCode::UnknownCall), "{code:?}");
            if let Some(id) = body.first_chunk() {
                assert_eq!(error.id, u64::from_le_bytes(*id));
            }
            false
        }
    });
    assert!(decoded > 10_000, "only {decoded} frames decoded: the mutations are too wild");
}

#[test]
fn no_bytes_make_the_response_decoder_panic_and_each_response_has_one_encoding() {
    let valid: Vec<_> = golden::responses().into_iter().map(|(golden, _)| golden).collect();
    let mut out = Vec::new();
    let decoded = feed(300_000, &valid, MAX_RESPONSE_LEN, |body| match decode_response(body) {
        Ok(response) => {
            out.clear();
            encode_response(&response, &mut out);
            assert_eq!(&out[HEADER_LEN..], body);
            true
        }
        Err(_) => false,
    });
    assert!(decoded > 3_000, "only {decoded} frames decoded: the mutations are too wild");
}

#[test]
fn a_length_above_the_limit_is_refused_at_the_header() {
    let error = split_frame(&[0xFF; 4], MAX_RESPONSE_LEN).unwrap_err();
    assert_eq!(error, FrameError { len: u32::MAX as usize, limit: MAX_RESPONSE_LEN });
    let (at, above) = (MAX_REQUEST_LEN as u32, MAX_REQUEST_LEN as u32 + 1);
    assert_eq!(split_frame(&at.to_be_bytes(), MAX_REQUEST_LEN), Ok(None));
    assert!(split_frame(&above.to_be_bytes(), MAX_REQUEST_LEN).is_err());
}

#[test]
fn a_list_longer_than_its_frame_is_refused_before_allocating() {
    // Ids with 2^40 runs in `more`, and Tags and Workers of 2^60 elements: none would fit in
    // memory.
    let head = |variant: u8| [&[1, 0, 0, 0, 0, 0, 0, 0, variant, 0, 0, 0][..], &[]].concat();
    let ids = [head(2), [0; 12].to_vec(), (1u64 << 40).to_le_bytes().to_vec()].concat();
    assert!(decode_response(&ids).is_err());
    for list in [5, 7] {
        let elements = [head(list), (1u64 << 60).to_le_bytes().to_vec()].concat();
        assert!(decode_response(&elements).is_err());
    }
}

#[cfg(feature = "async")]
mod interoperability {
    use super::*;
    use tokio_util::codec::{Decoder, LengthDelimitedCodec};

    #[test]
    fn frames_are_split_as_by_tokio_utils_codec() {
        let (mut codec, mut all) = (LengthDelimitedCodec::new(), Vec::new());
        let frames: Vec<_> = golden::responses().into_iter().map(|(golden, _)| golden).collect();
        frames.iter().for_each(|frame| all.extend_from_slice(frame));
        let mut bytes = all.as_slice().into();
        for frame in &frames {
            let theirs = codec.decode(&mut bytes).unwrap().unwrap();
            let (ours, rest) = split_frame(&all, MAX_RESPONSE_LEN).unwrap().unwrap();
            assert_eq!((&theirs[..], ours), (&frame[HEADER_LEN..], &frame[HEADER_LEN..]));
            all = rest.to_vec();
        }
        assert!(codec.decode(&mut bytes).unwrap().is_none());
    }

    #[test]
    fn tokio_utils_codec_writes_the_same_frames() {
        use tokio_util::codec::Encoder;
        let (mut codec, mut written) = (LengthDelimitedCodec::new(), Vec::new().as_slice().into());
        for (golden, response) in golden::responses() {
            codec.encode(&golden[HEADER_LEN..], &mut written).unwrap();
            assert_eq!(written[..], golden, "{response:?}");
            written.clear();
        }
    }
}
