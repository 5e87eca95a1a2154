//! Numbers and names as people read them: digits in groups, signs, and rows of a table below one another in any script.

use std::fmt;

/// A whole number with a comma between groups of three digits, for print only.
///
/// ```
/// use spanlift::text::grouped;
///
/// assert_eq!([0, 999, 1000, -1_234_567].map(grouped), ["0", "999", "1,000", "-1,234,567"]);
/// ```
pub fn grouped(n: impl fmt::Display) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (k, digit) in digits.chars().enumerate() {
        if k > 0 && (digits.len() - k).is_multiple_of(3) && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A relative difference in percent with its sign, for print only; no zero is negative.
///
/// ```
/// use spanlift::text::signed_percent;
///
/// assert_eq!([0.0217, -0.003].map(signed_percent), ["+2.2 %", "-0.3 %"]);
/// ```
pub fn signed_percent(part: f64) -> String {
    format!("{:+.1} %", (1000.0 * part).round() / 10.0 + 0.0)
}

/// Columns that a terminal takes for a text: none for what goes onto the character before it, two for wide characters, else one.
///
/// Wide are those that Unicode's East Asian Width calls wide or fullwidth; a character of no width is one that extends the one
/// before it. What controls a terminal is counted as if it were shown.
///
/// # Cost
/// Linear in the text.
///
/// # Source
/// Unicode 14, `EastAsianWidth.txt`; the standard library says which characters extend others.
///
/// # Examples
/// ```
/// use spanlift::text::columns;
///
/// assert_eq!(["copy", "größe", "gro\u{308}ße", "拷贝", "ｃｏｐｙ"].map(columns), [4, 5, 5, 4, 8]);
/// ```
pub fn columns(text: &str) -> usize {
    text.chars().map(of).sum()
}

/// The text with blanks behind it until it takes `n` columns; one that takes more stays as it is.
///
/// # Cost
/// Linear in the text.
///
/// # Examples
/// ```
/// assert_eq!(spanlift::text::padded("拷贝", 6), "拷贝  ");
/// ```
pub fn padded(text: &str, n: usize) -> String {
    let mut text = text.to_owned();
    let blanks = n.saturating_sub(columns(&text));
    text.extend(std::iter::repeat_n(' ', blanks));
    text
}

/// Names in at most `most` columns each, still told apart: a long one loses its end, or, where it would look like another one then, of
/// what both begin with all but the first word or so. C++ templates share a hundred characters.
///
/// # Cost
/// Quadratic in the number of names.
///
/// # Examples
/// ```
/// let names = ["encoder.layers.0.weight", "encoder.layers.1.weight", "bias"].map(str::to_owned);
/// assert_eq!(spanlift::text::apart(&names, 12), ["enco…rs.0.w…", "enco…rs.1.w…", "bias"]);
/// ```
pub fn apart(names: &[String], most: usize) -> Vec<String> {
    let all: Vec<Vec<char>> = names.iter().map(|name| name.chars().collect()).collect();
    let shared = |chars: &[char]| {
        let with = |other: &Vec<char>| chars.iter().zip(other).take_while(|(a, b)| a == b).count();
        all.iter().filter(|other| other.as_slice() != chars).map(with).max().unwrap_or(0)
    };
    let told = |chars: &Vec<char>| {
        let n = shared(chars);
        if wide(chars) <= most || wide(&chars[..chars.len().min(n + 1)]) < most {
            return cut(chars, most);
        }
        let head = first(chars, most / 3);
        let room = most.saturating_sub(wide(head) + 1);
        // Some of what is shared, to say what it is that differs, and no less than there is room for.
        let before = n - last(&chars[..n], most / 4).len();
        let tail = before.min(chars.len() - last(chars, room).len());
        format!("{}…{}", head.iter().collect::<String>(), cut(&chars[tail..], room))
    };
    let mut found: Vec<String> = all.iter().map(told).collect();
    // Names that differ in two places look alike where both are cut at the second: their beginning is that of the first.
    let alike = |k: usize| {
        let others = (0..all.len()).filter(|&other| found[other] == found[k] && all[other] != all[k]);
        let with = |other: usize| all[k].iter().zip(&all[other]).take_while(|(a, b)| a == b).count();
        others.map(with).max()
    };
    let firsts: Vec<Option<usize>> = (0..all.len()).map(alike).collect();
    for (name, (chars, first_other)) in found.iter_mut().zip(all.iter().zip(firsts)) {
        if let (Some(at), Some((begin, tail))) = (first_other, name.split_once('…')) {
            let head = first(&chars[at..], columns(begin).saturating_sub(1));
            *name = format!("…{}…{tail}", head.iter().collect::<String>());
        }
    }
    found
}

fn wide(chars: &[char]) -> usize {
    chars.iter().map(|c| of(*c)).sum()
}

/// As much of the beginning as takes at most `most` columns.
fn first(chars: &[char], most: usize) -> &[char] {
    let mut n = 0;
    let end = chars.iter().position(|c| {
        n += of(*c);
        most < n
    });
    &chars[..end.unwrap_or(chars.len())]
}

/// As much of the end as takes at most `most` columns.
fn last(chars: &[char], most: usize) -> &[char] {
    let mut n = 0;
    let before = chars.iter().rposition(|c| {
        n += of(*c);
        most < n
    });
    &chars[before.map_or(0, |k| k + 1)..]
}

/// The characters, or, where they take more, as many as leave room for a sign that there are more.
fn cut(chars: &[char], most: usize) -> String {
    match wide(chars) <= most {
        true => chars.iter().collect(),
        false => first(chars, most.saturating_sub(1)).iter().chain(&['…']).collect(),
    }
}

fn of(c: char) -> usize {
    if c < '\u{300}' {
        return 1;
    }
    // Vowels and ends within a Hangul syllable, joiners, marks of direction.
    let has_none =
        matches!(c, '\u{1160}'..='\u{11ff}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}');
    if has_none || extends(c) {
        return 0;
    }
    let code = u32::from(c);
    let k = WIDE.partition_point(|range| range.0 <= code);
    1 + usize::from(k.checked_sub(1).is_some_and(|k| code <= WIDE[k].1))
}

/// Whether a character goes onto the one before it. The standard library escapes such a one alone, where nothing is before it.
fn extends(c: char) -> bool {
    // Marks of halfwidth kana have a place of their own.
    let is_halfwidth = matches!(c, '\u{ff9e}' | '\u{ff9f}');
    !is_halfwidth && 1 < c.escape_debug().len() && String::from_iter(['a', c]).escape_debug().count() == 2
}

#[rustfmt::skip]
const WIDE: [(u32, u32); 80] = [
    (0x1100, 0x115f), (0x231a, 0x231b), (0x2329, 0x232a), (0x23e9, 0x23ec), (0x23f0, 0x23f0), (0x23f3, 0x23f3),
    (0x25fd, 0x25fe), (0x2614, 0x2615), (0x2648, 0x2653), (0x267f, 0x267f), (0x2693, 0x2693), (0x26a1, 0x26a1),
    (0x26aa, 0x26ab), (0x26bd, 0x26be), (0x26c4, 0x26c5), (0x26ce, 0x26ce), (0x26d4, 0x26d4), (0x26ea, 0x26ea),
    (0x26f2, 0x26f3), (0x26f5, 0x26f5), (0x26fa, 0x26fa), (0x26fd, 0x26fd), (0x2705, 0x2705), (0x270a, 0x270b),
    (0x2728, 0x2728), (0x274c, 0x274c), (0x274e, 0x274e), (0x2753, 0x2755), (0x2757, 0x2757), (0x2795, 0x2797),
    (0x27b0, 0x27b0), (0x27bf, 0x27bf), (0x2b1b, 0x2b1c), (0x2b50, 0x2b50), (0x2b55, 0x2b55), (0x2e80, 0x303e),
    (0x3041, 0x3247), (0x3250, 0x4dbf), (0x4e00, 0xa4c6), (0xa960, 0xa97c), (0xac00, 0xd7a3), (0xf900, 0xfad9),
    (0xfe10, 0xfe6b), (0xff01, 0xff60), (0xffe0, 0xffe6), (0x16fe0, 0x1b2fb), (0x1f004, 0x1f004), (0x1f0cf, 0x1f0cf),
    (0x1f18e, 0x1f18e), (0x1f191, 0x1f19a), (0x1f200, 0x1f320), (0x1f32d, 0x1f335), (0x1f337, 0x1f37c), (0x1f37e, 0x1f393),
    (0x1f3a0, 0x1f3ca), (0x1f3cf, 0x1f3d3), (0x1f3e0, 0x1f3f0), (0x1f3f4, 0x1f3f4), (0x1f3f8, 0x1f43e), (0x1f440, 0x1f440),
    (0x1f442, 0x1f4fc), (0x1f4ff, 0x1f53d), (0x1f54b, 0x1f54e), (0x1f550, 0x1f567), (0x1f57a, 0x1f57a), (0x1f595, 0x1f596),
    (0x1f5a4, 0x1f5a4), (0x1f5fb, 0x1f64f), (0x1f680, 0x1f6c5), (0x1f6cc, 0x1f6cc), (0x1f6d0, 0x1f6d2), (0x1f6d5, 0x1f6df),
    (0x1f6eb, 0x1f6ec), (0x1f6f4, 0x1f6fc), (0x1f7e0, 0x1f7f0), (0x1f90c, 0x1f93a), (0x1f93c, 0x1f945), (0x1f947, 0x1f9ff),
    (0x1fa70, 0x1faf6), (0x20000, 0x3fffd),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_difference_is_a_negative_zero() {
        let told = [0.0222, -0.003, -0.0004, 0.0004, 0.0, -0.0].map(signed_percent);
        assert_eq!(told, ["+2.2 %", "-0.3 %", "+0.0 %", "+0.0 %", "+0.0 %", "+0.0 %"]);
    }

    #[test]
    fn characters_take_the_columns_of_a_terminal() {
        for (text, expected) in [
            ("", 0),
            ("plain", 5),
            ("größer → 7…", 11),
            ("e\u{301}", 1),
            ("ก\u{e33}ล\u{e31}ง", 4),
            ("नि", 2),
            ("\u{5e9}\u{5c1}\u{5b8}", 1),
            ("\u{1112}\u{1161}\u{11ab}", 2),
            ("한글", 4),
            ("カーネル", 8),
            ("ｶｰﾈﾙ", 4),
            ("ｶﾞ", 2),
            ("か\u{3099}", 2),
            ("拷贝，完", 8),
            ("Ａ１", 4),
            ("✅", 2),
            ("✓", 1),
            ("🚀", 2),
            ("a\u{200d}b\u{feff}", 2),
            ("\u{e0b0}", 1),
            ("𠀀", 2),
            ("\u{fffd}", 1),
            ("┌─┐", 3),
        ] {
            assert_eq!(columns(text), expected, "{text:?}");
        }
        assert!(WIDE.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0) && WIDE.iter().all(|(a, b)| a <= b));
    }

    #[test]
    fn long_names_are_told_apart() {
        let kernel = |functor: &str, n: u32| {
            format!(
                "void at::native::vectorized_elementwise_kernel<4, at::native::{functor}<float>, {n}>(int)"
            )
        };
        let names = [
            kernel("FillFunctor", 1),
            kernel("CUDAFunctor_add", 3),
            kernel("CUDAFunctor_add", 2),
            "volta_sgemm_64x64_tn".to_owned(),
            "cudnn_infer_volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1".to_owned(),
        ];
        assert_eq!(
            apart(&names, 56),
            [
                "void at::native::v…, at::native::FillFunctor<float>, 1>…",
                "void at::native::v…tive::CUDAFunctor_add<float>, 3>(int)",
                "void at::native::v…tive::CUDAFunctor_add<float>, 2>(int)",
                "volta_sgemm_64x64_tn",
                "cudnn_infer_volta_scudnn_winograd_128x128_ldg1_ldg4_rel…",
            ]
        );
        // Two families of kernels, each with the same two functors.
        let kernel = |family: &str, functor: &str| {
            format!("void at::native::{family}_elementwise_kernel<at::native::{functor}<float> >(int)")
        };
        let names = [
            kernel("unrolled", "AddFunctor"),
            kernel("unrolled", "MulFunctor"),
            kernel("vectorized", "AddFunctor"),
            kernel("vectorized", "MulFunctor"),
        ];
        let told = apart(&names, 32);
        assert!(told.iter().all(|name| columns(name) <= 32), "{told:?}");
        let tells = |name: &str, parts: [&str; 2]| parts.iter().all(|part| name.contains(part));
        assert!(tells(&told[0], ["unrolled", "AddF"]) && tells(&told[1], ["unrolled", "MulF"]), "{told:?}");
        assert!(tells(&told[2], ["vectori", "AddF"]) && tells(&told[3], ["vectori", "MulF"]), "{told:?}");
        // Any names of few letters that differ stay different, none is too long, and what is short enough is whole.
        let mut random = 7_u32;
        for k in 0..4000 {
            let mut next = |n: u32| {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (random >> 16) % n
            };
            // Half of them of wide letters.
            let (letters, most) =
                if k < 2000 { (["a", "b", "0", "1"], 12) } else { (["拷", "贝", "零", "一"], 24) };
            let begin = letters[0].repeat(next(40) as usize);
            let one = |tail: u32| {
                let bits = format!("{tail:04b}").replace('0', letters[2]).replace('1', letters[3]);
                format!("{begin}{bits}{}", letters[1].repeat(tail as usize))
            };
            let names = [one(next(16)), one(next(16)), one(next(16))];
            let told = apart(&names, most);
            for (name, told_as) in names.iter().zip(&told) {
                assert!(columns(told_as) <= most, "{told:?}");
                assert!(most < columns(name) || name == told_as, "{told:?}");
            }
            for (j, k) in [(0, 1), (0, 2), (1, 2)] {
                assert_eq!(names[j] == names[k], told[j] == told[k], "{names:?} {told:?}");
            }
        }
    }
}
