//! A hint to the processor: what it should have at hand soon.

/// Has the processor fetch the first two lines of `value` into its caches. Changes nothing else. On other
/// processors than x86-64, where Rust has no stable way, it does nothing.
#[inline(always)]
pub(crate) fn prefetch_lines<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

        let first = std::ptr::from_ref(value).cast::<i8>();
        #[expect(unsafe_code, reason = "the standard library has no safe way on stable Rust")]
        // SAFETY: it reads nothing that the program could see, and cannot fault at any address.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(first);
            _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(64));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
