//! Numbers with a point or an exponent, read from text.

/// A number as `str::parse` reads it.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn float(text: &str) -> Option<f64> {
    text.parse().ok()
}

/// A number as `str::parse` reads it, by the reader of JSON: with both readers the viewer's module would carry two tables
/// of powers, 10 kB that no packer makes smaller.
#[cfg(target_arch = "wasm32")]
pub(crate) fn float(text: &str) -> Option<f64> {
    through_json(text)
}

#[cfg(any(test, target_arch = "wasm32"))]
fn through_json(text: &str) -> Option<f64> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'-' => ("-", &text[1..]),
        b'+' => ("", &text[1..]),
        _ => ("", text),
    };
    let signed = |value: f64| if sign.is_empty() { value } else { -value };
    if rest.eq_ignore_ascii_case("nan") {
        return Some(signed(f64::NAN));
    }
    if rest.eq_ignore_ascii_case("inf") || rest.eq_ignore_ascii_case("infinity") {
        return Some(signed(f64::INFINITY));
    }
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (number, exponent) = rest.split_once(['e', 'E']).map_or((rest, None), |(n, e)| (n, Some(e)));
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if !digits(whole) || !digits(part) || (whole.is_empty() && part.is_empty()) {
        return None;
    }
    let exponent = exponent.unwrap_or("0");
    let magnitude = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    if magnitude.is_empty() || !digits(magnitude) {
        return None;
    }
    // JSON knows no zeros in front, no point without digits around it, and no number beyond the largest.
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    let json = format!("{sign}{whole}.{part}0e{exponent}");
    Some(serde_json::from_str(&json).unwrap_or(signed(f64::INFINITY)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str) {
        let bits = |value: Option<f64>| value.map(|v| if v.is_nan() { u64::MAX } else { v.to_bits() });
        assert_eq!(bits(through_json(text)), bits(text.parse().ok()), "{text:?}");
        assert_eq!(bits(float(text)), bits(text.parse().ok()), "{text:?}");
    }

    #[test]
    fn every_spelling_is_the_number_that_the_standard_library_reads() {
        for text in [
            "",
            "0",
            "-0",
            "+0",
            "00",
            "007",
            "1",
            "-1.5",
            "+1.5",
            ".5",
            "5.",
            "-.5",
            "+5.",
            ".",
            "-",
            "+",
            "--1",
            "+-1",
            "1e5",
            "1E5",
            "1e+5",
            "1e-5",
            "1e",
            "1e+",
            "e5",
            ".e5",
            "1.e5",
            ".5e5",
            "1e5.0",
            "1e5e5",
            "1.2.3",
            "inf",
            "-INF",
            "+Infinity",
            "nan",
            "-NaN",
            "infinit",
            "1_000",
            "1 ",
            " 1",
            "0x10",
            "1f",
            "é",
            "1é",
            "1e308",
            "1.7976931348623157e308",
            "1.7976931348623159e308",
            "1e309",
            "-1e309",
            "1e99999999999999999999",
            "0e99999999999999999999",
            "1e-99999999999999999999",
            "5e-324",
            "2e-324",
            "2.4703282292062328e-324",
            "2.2250738585072014e-308",
            "2.2250738585072011e-308",
            "9007199254740993",
            "9007199254740992.5",
            "18446744073709551615",
            "18446744073709551616",
            "123456789012345678901234567890",
            "0.1",
            "0.30000000000000004",
            "179769313486231580793728971405303415079934132710037826936173778980444968292764750946649017977587207096330286416692887910946555547851940402630657488671505820681908902000708383676273854845817711531764475730270069855571366959622842914819860834936475292719074168444365510704342711559699508093042880",
        ] {
            check(text);
        }
    }

    #[test]
    fn numbers_of_any_length_are_rounded_as_the_standard_library_rounds_them() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for _ in 0..20_000 {
            let value = f64::from_bits(next());
            check(&format!("{value:?}"));
            check(&format!("{value:e}"));
            check(&format!("{}.{}e{}", next(), next(), next() as i64 % 340));
            check(&format!("{}{}", next(), next()));
            // halfway between two numbers that can be told apart, and a little beside it
            let half = u128::from(next() >> 11 | 1 << 52) * 2 + 1;
            check(&half.to_string());
            check(&format!("{half}.000000000000000000000000000000001"));
        }
    }
}
