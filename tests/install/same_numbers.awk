# awk -f same_numbers.awk EXPECTED PRINTED: fails unless both have the same words in the same lines; numbers may differ by 4 %.
function number(word) { return word ~ /^-?[0-9.]+(e[-+][0-9]+)?$/ }
function same(a, b) { return a == b || number(a) && number(b) && (a - b) ^ 2 <= (0.04 * a) ^ 2 }
NR == FNR { expected[++lines] = $0; next }
{
  n = split(expected[FNR], words)
  good = n == NF
  for (i = 1; i <= n; ++i) good = good && same(words[i], $i)
  if (!good) { print "line " FNR ": \"" expected[FNR] "\" is expected, \"" $0 "\" is printed"; wrong = 1 }
  printed = FNR
}
END { exit wrong || printed != lines }
