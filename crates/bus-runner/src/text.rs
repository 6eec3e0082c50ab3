//! What commands write, made safe and short enough to be read by people.
//!
//! Pure machines: no clock, no input or output, bounded memory whatever comes in. Where the bytes
//! are cut into pieces makes no difference to any of them.

mod escapes;
mod fold;
mod head_tail;
mod sanitize;
mod style;
mod utf8_view;
mod width;

pub use self::fold::{Fold, FoldLimits, Line};
pub use self::head_tail::{HeadTail, HeadTailEnd, LeftOut};
pub use self::sanitize::Sanitize;
pub use self::utf8_view::Utf8View;
