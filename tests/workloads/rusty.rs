// Rust names, in either mangling: modules, generics, a trait's method and a closure. `rusty [SECONDS]`
// With WORKLOAD_FIRE=N in the environment, SIGUSR1 makes the leaf call getppid() N times, and the program ends.
use std::io::Write;
use std::os::unix::process::parent_id;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

static FIRE: AtomicU32 = AtomicU32::new(0);
static FIRINGS: AtomicU32 = AtomicU32::new(0);

extern "C" {
    fn signal(number: i32, handler: extern "C" fn(i32)) -> usize;
}

extern "C" fn on_fire(_: i32) {
    FIRINGS.store(FIRE.load(SeqCst), SeqCst);
}

/// Something to do after a call, so that it is no tail call. std::hint's is younger than Debian 12's compiler.
#[inline(always)]
fn black_box(n: u64) -> u64 {
    unsafe { std::ptr::read_volatile(&n) }
}

mod store {
    use super::*;

    pub trait Shelf {
        fn visit(&self, until: Instant) -> u64;
    }

    pub struct Crate<T> {
        pub inside: T,
    }

    impl<T: Copy + Into<u64>> Shelf for Crate<T> {
        #[inline(never)]
        fn visit(&self, until: Instant) -> u64 {
            let n = count(until, self.inside.into());
            black_box(n) + 1
        }
    }

    #[inline(never)]
    pub fn count(until: Instant, start: u64) -> u64 {
        let mut x = start;
        while Instant::now() < until {
            let firings = FIRINGS.load(SeqCst);
            for _ in 0..firings {
                black_box(parent_id() as u64);
            }
            if firings > 0 {
                break;
            }
            for _ in 0..100_000 {
                x = black_box(x.wrapping_mul(6364136223846793005).wrapping_add(1));
            }
        }
        x
    }
}

#[inline(never)]
fn recurse(depth: u32, shelf: &dyn store::Shelf, until: Instant) -> u64 {
    let n = if depth == 0 { shelf.visit(until) } else { recurse(depth - 1, shelf, until) };
    black_box(n).wrapping_add(depth as u64)
}

fn main() {
    if let Ok(fire) = std::env::var("WORKLOAD_FIRE") {
        FIRE.store(fire.parse().unwrap(), SeqCst);
        unsafe { signal(10, on_fire) }; // SIGUSR1
    }
    let seconds: f64 = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(5.0);
    let below = ";rusty::recurse".repeat(11);
    println!("stack rusty::main{below};<rusty::store::Crate<u32> as rusty::store::Shelf>::visit;rusty::store::count");
    println!("pid {}\nready", std::process::id());
    std::io::stdout().flush().unwrap();
    let n = recurse(10, &store::Crate { inside: 7u32 }, Instant::now() + Duration::from_secs_f64(seconds));
    std::process::exit((n & 0) as i32);
}
