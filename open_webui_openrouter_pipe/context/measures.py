"""How people write quantities, dates and times: the patterns, as text to build others of.

Owns the units, currencies, months and the grammar around them. Everything is bounded or possessive, so that
no text makes a search slow.
"""

from __future__ import annotations

import re

LETTER = r"A-Za-z0-9_\u00c0-\u024f\u0370-\u052f"
"""What words are made of in scripts that put spaces between them; other scripts end a token."""

_GAP = "[ \u00a0\u202f]"
_SYMBOLS = (
    "B kB KB MB GB TB PB EB KiB MiB GiB TiB PiB bit kbit Mbit Gbit bps kbps Kbps Mbps Gbps Tbps Hz kHz "
    "MHz GHz THz ns µs μs us ms s sec secs min mins h hr hrs d wk mo yr yrs nm µm μm um mm cm dm m km ft "
    "yd mi nmi ly pc m² km² cm² mm² ft² m2 km2 cm2 ft2 sqm sqft ha ac ml mL cl dl l L hl m³ cm³ mm³ km³ "
    "m3 cm3 cc gal qt pt oz lb lbs ng µg μg ug mg g kg t kt Mt °C °F ℃ ℉ ° K V mV kV A mA µA W mW kW MW "
    "GW TW Wh kWh MWh GWh TWh Ah mAh Ω kΩ MΩ µF nF pF mH dB dBA dBm Pa hPa kPa MPa GPa bar mbar psi atm "
    "mmHg N kN Nm J kJ MJ GJ cal kcal eV keV MeV GeV TeV mol mmol µmol ppm ppb rpm fps dpi ppi px em rem "
    "vh vw mph kph kn Bq kBq Sv mSv µSv lm lx cd IU FLOPS GFLOPS TFLOPS MIPS pp pct bp % ‰ \u00d7 x € $ £ "
    "¥ ₹ ₩ ₽ ₺ ₿ ¢"
)
_CURRENCIES = (
    "USD EUR GBP JPY CHF CNY INR AUD CAD SEK NOK DKK PLN CZK HUF BRL MXN ZAR KRW SGD HKD NZD TRY RUB UAH "
    "ILS AED SAR THB IDR BTC ETH USDT"
)
_WORDS = (
    "bytes? kilobytes? megabytes? gigabytes? terabytes? petabytes? bits? hertz kilohertz megahertz "
    "gigahertz nanoseconds? microseconds? milliseconds? seconds? minutes? hours? days? weeks? fortnights? "
    "months? quarters? years? decades? centur(?:y|ies) millimet(?:er|re)s? centimet(?:er|re)s? "
    "met(?:er|re)s? kilomet(?:er|re)s? inch(?:es)? foot feet yards? miles? acres? hectares? "
    "lit(?:er|re)s? millilit(?:er|re)s? gallons? pints? cups? tablespoons? teaspoons? grams? grammes? "
    "kilograms? kilos? milligrams? tons? tonnes? ounces? pounds? stones? degrees? celsius fahrenheit "
    "kelvin volts? amps? amperes? watts? kilowatts? megawatts? ohms? joules? calories? pascals? newtons? "
    "knots? decibels? pixels? dots? points? percent percentage basis dollars? cents? euros? pence yen "
    "yuan rupees? francs? rubles? people persons? men women children staff users? requests? tokens? rows? "
    "records? lines? files? pages? words? characters? columns? items? units? pieces? copies times rounds? "
    "turns? steps? cores? threads? nodes? replicas? workers? servers? dozen pairs? boxes barrels? sheep "
    "fish Sekunden? Minuten? Stunden? Tagen? Tage? Wochen? Monaten? Monate? Jahren? Jahre? Metern? "
    "Kilometern? Litern? Gramm Kilogramm Tonnen? Grad Prozent Stück Euro Personen Leute Seiten? Zeilen? "
    "secondes? heures? jours? semaines? mois années? ans? mètres? kilomètres? litres? grammes? pour_cent "
    "segundos? minutos? horas? días? semanas? meses años? metros? kilómetros? litros? gramos? por_ciento"
)
_VERBS = (
    "this was has his its does plus thus less versus always perhaps across unless besides is as us yes "
    "needs shows means says gives takes makes works runs uses gets goes fails fixes returns remains "
    "equals comes contains listens starts ends describes exists belongs stands holds applies towards "
    "afterwards"
)
_MULTIPLES = (
    "thousands? millions? billions? trillions? hundreds? lakhs? crores? Tausend Millionen Milliarden "
    "Million Milliarde milliers millones millions milliards mil"
)
_SHORT_MULTIPLES = "k K M m bn mn tn Mio\\.? Mrd\\.? Tsd\\.?"
_MONTHS = (
    "January February March April May June July August September October November December Jan Feb Mar "
    "Apr Jun Jul Aug Sept Sep Oct Nov Dec Januar Jänner Februar März Mai Juni Juli Oktober Dezember Dez "
    "Okt janvier février mars avril mai juin juillet août septembre octobre novembre décembre enero "
    "febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre gennaio febbraio "
    "aprile maggio giugno luglio settembre ottobre dicembre janeiro fevereiro março maio junho julho "
    "setembro outubro dezembro januari februari maart augustus december"
)
MONTHS = frozenset(_MONTHS.split())
"""The names of the months, also short ones."""
_DAYS = (
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday Mon Tues? Wed Thu(?:rs)? Fri Sat Sun Montag "
    "Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag lundi mardi mercredi jeudi vendredi samedi "
    "dimanche"
)
_ZONES = "UTC GMT CET CEST EST EDT CST CDT MST MDT PST PDT BST IST JST AEST MEZ MESZ"


def _any(words: str, *, escape: bool = False) -> str:
    """One of the words, the longest first."""
    chosen = sorted(set(words.split()), key=len, reverse=True)
    return "(?:" + "|".join(re.escape(word) if escape else word.replace("_", " ") for word in chosen) + ")"


_ENDS = rf"(?![{LETTER}]|[-.:@/][{LETTER}]{{0,40}}\d)"
_DIGITS = (
    r"(?:\d{1,3}(?:[,.'\u2019\u00a0\u202f ]\d{3}){1,9}+(?!\d)(?:[.,]\d{1,30}+)?"
    r"|\d++(?:[.,/]\d{1,30}+)?(?:[eE][-+\u2212]?\d{1,4}+)?)(?![.,]?\d)"
)
NUMBER = rf"(?>[-+\u2212±]?{_DIGITS}(?:{_GAP}?[-\u2013—]{_GAP}?{_DIGITS})?)"
_MULTIPLE = rf"(?:{_any(_SHORT_MULTIPLES)}|(?i:{_any(_MULTIPLES)})){_ENDS}"
_NAMED_UNIT = (
    rf"(?:{_any(_SYMBOLS, escape=True)}|{_any(_CURRENCIES)}|(?i:{_any(_WORDS)})"
    r"(?: (?i:points|Celsius|Fahrenheit))?)"
)
_PREFIX = rf"(?:(?i:square|cubic|metric|nautical|fluid|light|sq\.?|cu\.?){_GAP})?"
_PER = rf"(?:{_GAP}?/{_GAP}?[{LETTER}²³]{{1,20}}|{_GAP}(?i:per|pro|par|por){_GAP}{_NAMED_UNIT}{_ENDS})?"
_UNIT = rf"{_PREFIX}{_NAMED_UNIT}{_ENDS}{_PER}"
_COUNTED = rf"(?!(?i:{_any(_VERBS)})\b)[A-Za-z]{{3,24}}+(?<=s){_ENDS}"
_MIXED = (
    rf"(?>\d{{1,4}}{_GAP}?)(?:years?|months?|weeks?|d|days?|h|hrs?|hours?|min|minutes?|ft|feet|lbs?|pounds?)"
    rf"(?:{_GAP}\d{{1,2}}{_GAP}?(?:months?|weeks?|days?|h|hrs?|hours?|m|min|minutes?|s|secs?|seconds?|in|inch(?:es)?|oz)"
    rf"(?![{LETTER}])){{1,3}}"
)
MEASURE = (
    rf"(?=[-+\u2212±]?\d)(?:{_MIXED}|(?>{NUMBER}{_GAP}?)(?=[^\d\s])(?:(?:{_MULTIPLE}{_GAP})?{_UNIT}"
    rf"|{_MULTIPLE}(?:{_GAP}{_COUNTED})?|{_COUNTED}"
    r"|[元円圆个個人件台年月日时時分秒万萬億亿公千米克度岁歳회원명개]{1,3}))"
)
MONEY = (
    rf"(?=[A-Z$€£¥₹₩₽₺₿])(?:(?:[A-Z]{{1,3}})?[$€£¥₹₩₽₺₿]{_GAP}?{_DIGITS}"
    rf"(?:{_GAP}?[-\u2013]{_GAP}?[$€£¥₹₩₽₺₿]?{_DIGITS})?(?:{_GAP}?{_MULTIPLE})?{_PER}"
    rf"|{_any(_CURRENCIES)}{_GAP}?{_DIGITS}(?:{_GAP}?{_MULTIPLE})?)"
)

_CLOCK = (
    rf"(?:\d{{1,2}}:\d{{2}}(?::\d{{2}}(?:[.,]\d{{1,9}})?)?(?:{_GAP}?(?:[AaPp]\.[Mm]\.|[AaPp][Mm]\b|Uhr\b|Z\b))?"
    rf"|\d{{1,2}}{_GAP}?(?:[AaPp]\.[Mm]\.|[AaPp][Mm]\b|Uhr\b|o'clock\b))(?![\d:])"
    rf"(?:{_GAP}?(?:{_any(_ZONES)}\b(?:[-+]\d{{1,2}}(?::?\d{{2}})?)?|[-+]\d{{2}}:?\d{{2}}(?!\d)))?"
)
_MONTH = _any(_MONTHS)
_YEAR = r"\d{4}(?!\d)"
_DAY = r"\d{1,2}(?:st|nd|rd|th|er|º)?(?![\d:])"
_NUMERIC_DAY = (
    r"(?:\d{4}-\d{1,2}-\d{1,2}|\d{4}/\d{1,2}/\d{1,2}|\d{4}\.\d{1,2}\.\d{1,2}|\d{1,2}(?P<mark>[./-])\d{1,2}(?P=mark)\d{2,4}"
    r"|\d{4}年\d{1,2}月(?:\d{1,2}日)?)(?![\d/-]|\.\d)"
)
_YEAR_AFTER = rf"(?:(?:,?{_GAP}|-)(?:de |of )?{_YEAR})"
_NAMED_DAY = (
    rf"(?:{_MONTH}\.?{_GAP}{_DAY}(?:,?{_GAP}{_YEAR})?|{_MONTH}\.?,?{_GAP}(?:de |of )?{_YEAR}"
    rf"|[QH][1-4][ /-]?{_YEAR})"
)
_COUNTED_DAY = rf"(?:{_DAY}\.?(?:{_GAP}|-)(?:of |de |d')?{_MONTH}\b\.?{_YEAR_AFTER}?|\d{{4}}[ -]?[QH][1-4])"
_WITH_CLOCK = rf"(?:(?:T|,?{_GAP}|{_GAP}(?:at|um){_GAP}){_CLOCK})?"
DATE = (
    rf"(?:(?=[A-Z])(?:(?:{_any(_DAYS)}\.?,?{_GAP})?{_NAMED_DAY}|{_any(_DAYS)}\.?,?{_GAP}{_COUNTED_DAY})"
    rf"|(?=\d)(?:{_NUMERIC_DAY}|{_COUNTED_DAY}))(?![{LETTER}](?<!T)){_WITH_CLOCK}|(?=\d){_CLOCK}"
)
