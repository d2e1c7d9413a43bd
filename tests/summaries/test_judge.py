"""What is refused as a summary although its form is right, and what is not."""

from __future__ import annotations

import pytest

from open_webui_openrouter_pipe.conversation.estimate import estimate_tokens
from open_webui_openrouter_pipe.summaries.completion import MIN_TOKENS, judge_content, require_content
from open_webui_openrouter_pipe.summaries.summary import (
    Entry,
    ModelSummary,
    RefusalReason,
    Summary,
    SummaryRefused,
)

ENGLISH = """Our nightly export to the warehouse fails since Tuesday. The scheduler starts the worker at two in the
morning, it reads the customer table in batches of 5000 rows, and after about forty batches the connection is
closed by the database server. We raised the statement timeout to 900 seconds in postgresql.conf, which
changed nothing. Anna found that the replica restarts at exactly that hour, because the maintenance window of
the provider begins then. We decided to move the export to half past four and to retry each batch three times.
The dashboard in Grafana should show the duration of every export, and somebody has to inform the accounting
department, who wait for the figures before nine. Bob asks whether the old archive on the file server may be
deleted; nobody has answered him yet."""
GERMAN = """\
Seit Dienstag scheitert unser nächtlicher Export ins Lager. Der Planer startet den Prozess um zwei Uhr nachts,
er liest die Kundentabelle in Blöcken zu je 5000 Zeilen, und nach etwa vierzig Blöcken schließt der
Datenbankserver die Verbindung. Wir haben die Zeitgrenze in postgresql.conf auf 900 Sekunden erhöht, das
änderte nichts. Anna fand heraus, dass die Replik genau zu dieser Stunde neu startet, weil dann das
Wartungsfenster des Anbieters beginnt. Wir haben beschlossen, den Export auf halb fünf zu verlegen und jeden
Block dreimal zu versuchen. Die Übersicht in Grafana soll die Dauer jedes Exports zeigen, und jemand muss die
Buchhaltung benachrichtigen, die vor neun auf die Zahlen wartet. Bob fragt, ob das alte Archiv auf dem
Dateiserver gelöscht werden darf; niemand hat ihm bisher geantwortet."""
CHINESE = """从周二开始,我们每晚向数据仓库的导出任务都会失败。调度器在凌晨两点启动工作进程,按每批五千行读取客户表,大约四
十批之后数据库服务器就关闭了连接。我们把语句超时提高到九百秒,但是没有任何改变。安娜发现副本正好在那个时间重新
启动,因为供应商的维护窗口从那时开始。我们决定把导出移到四点半,并且每一批重试三次。监控面板应该显示每次导出的
时长,还需要有人通知会计部门,他们在九点之前等着这些数字。鲍勃问文件服务器上的旧档案能不能删除,目前还没有人回
答他。"""
JAPANESE = """\
火曜日から、倉庫への夜間エクスポートが失敗しています。スケジューラは午前二時にワーカーを起動し、顧客テーブルを
五千行ずつ読み込みますが、約四十回目のバッチの後にデータベースサーバーが接続を閉じます。ステートメントのタイム
アウトを九百秒に上げましたが、何も変わりませんでした。アンナは、プロバイダーのメンテナンス時間が始まるため、レ
プリカがちょうどその時刻に再起動することを突き止めました。エクスポートを四時半に移し、各バッチを三回まで再試行
することに決めました。"""
SOURCES = {"English": ENGLISH, "German": GERMAN, "Chinese": CHINESE, "Japanese": JAPANESE}
SUMMARIES = {
    "English": (
        "The nightly export fails after about forty batches of 5000 rows, since the replica restarts at two in the "
        "morning, when the provider's maintenance window begins (found by Anna). A longer statement timeout did not "
        "help. Decided: export at half past four, three retries for each batch. Still open: Grafana should show "
        "durations, accounting must be informed, and Bob waits for an answer about deleting the old archive."
    ),
    "German": (
        "Der nächtliche Export scheitert nach etwa vierzig Blöcken zu 5000 Zeilen, weil die Replik um zwei Uhr neu "
        "startet, wenn das Wartungsfenster des Anbieters beginnt (Anna). Eine längere Zeitgrenze half nicht. "
        "Beschlossen: Export um halb fünf, jeder Block dreimal. Offen: Grafana soll die Dauer zeigen, die Buchhaltung "
        "ist zu benachrichtigen, und Bob wartet auf Antwort wegen des alten Archivs auf dem Dateiserver."
    ),
    "Chinese": (
        "每晚的导出在大约四十批之后失败,因为副本在凌晨两点重新启动,那时供应商的维护窗口开始(安娜发现)。提高语句超时没有用。决定:导出移到四点半,"
        "每批重试三次。未完成:监控面板显示导出时长,通知会计部门,鲍勃关于旧档案能不能删除的问题还没有人回答。"
    ),
    "Japanese": (
        "夜間エクスポートは約四十回目のバッチの後に失敗する。午前二時にレプリカが再起動し、プロバイダーのメンテナンス時間が始まるため(アンナが発見)。"
        "タイムアウトを上げても変わらなかった。決定:エクスポートを四時半に移し、各バッチを三回まで再試行する。"
    ),
}
OTHERS = {
    "English": (
        "The user wants a chocolate cake without butter for grandmother's birthday. The assistant proposed almond "
        "flour, cocoa powder, coconut sugar and honey, baked gently under foil. They discussed whether yoghurt makes "
        "it moist enough for the children and the rest of the family, chose strawberries as decoration, "
        "and postponed buying candles. Unclear: whether little Emma tolerates hazelnuts, and "
        "which plates are suitable for the garden."
    ),
    "Chinese": (
        "用户想给奶奶的生日做一个不放黄油的巧克力蛋糕。助手建议使用杏仁粉、可可粉、椰子糖和蜂蜜,盖上锡纸慢慢烤。他们讨论了酸奶是否足够湿润,"
        "选择草莓作为装饰,蜡烛以后再买。不清楚小艾玛能不能吃榛子,花园里用哪些盘子合适。"
    ),
}
LOREM = (
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore et dolore "
    "magna aliqua. Ut enim ad minim veniam, quis nostrud exercitation ullamco laboris nisi ut aliquip ex ea commodo "
    "consequat. Duis aute irure dolor in reprehenderit in voluptate velit esse cillum dolore eu fugiat nulla pariatur."
)


def judged(text: str, source: str, key_facts: tuple[Entry, ...] = ()) -> RefusalReason | None:
    """Why a summary of the source is refused; None when it is not."""
    try:
        judge_content(
            ModelSummary(text, key_facts),
            [source],
            source_tokens=estimate_tokens(source),
            count=estimate_tokens,
        )
    except SummaryRefused as refused:
        return refused.reason
    return None


@pytest.mark.parametrize("language", SUMMARIES)
@pytest.mark.parametrize("of", SOURCES)
def test_a_true_summary_passes(language: str, of: str) -> None:
    """In the language of its source, and in another one."""
    assert judged(SUMMARIES[language], SOURCES[of]) is None


@pytest.mark.parametrize(
    ("text", "source"),
    [(OTHERS["English"], ENGLISH), (OTHERS["Chinese"], CHINESE), (LOREM, ENGLISH), (LOREM, GERMAN)],
    ids=["English", "Chinese", "lorem in English", "lorem in German"],
)
def test_a_summary_of_something_else_is_refused(text: str, source: str) -> None:
    """Its words hardly occur in the source, or not one of them does."""
    assert judged(text, source) == "not about its source"


def test_so_many_words_must_occur_in_the_source() -> None:
    """Three of ten of the rare ones."""
    known = [
        "export",
        "scheduler",
        "customer",
        "database",
        "statement",
        "replica",
        "provider",
        "dashboard",
        "archive",
    ]
    unknown = [f"{'abcdefghijklmnopqrstuvwxyz'[at]}qxzj" for at in range(21)]
    few = "the and of to in " + " ".join([*known[:8], *unknown])
    enough = "the and of to in " + " ".join([*known, *unknown])
    assert [judged(text + " to" * 60, ENGLISH) for text in (few, enough)] == ["not about its source", None]


def test_a_few_words_prove_nothing() -> None:
    """Below twenty rare words a summary is not compared with its source."""
    words = [f"{'abcdefghijklmnopqrstuvwxyz'[at]}qxzj" for at in range(20)]
    texts = ["the and of to in " + " ".join(words[:count]) + " to" * 60 for count in (19, 20)]
    assert [judged(text, ENGLISH) for text in texts] == [None, "not about its source"]


def test_between_languages_one_rare_word_in_common_is_enough() -> None:
    """A name, a number or a loan word; none is too few."""
    words = [f"{'abcdefghijklmnopqrstuvwxyz'[at]}qxzj" for at in range(20)]
    text = "the and of to " + " ".join(words) + " to" * 60
    assert [judged(each, GERMAN) for each in (text, f"{text} Grafana")] == ["not about its source", None]


@pytest.mark.parametrize(
    "text",
    [".", "...", "—", " ", "N/A", "None", "null", "TBD", "(empty)", "Summary", "Keine", "无", "なし", "key_facts"],
)  # fmt: skip
def test_a_placeholder_is_no_content(text: str) -> None:
    """Whatever the lists hold."""
    assert judged(text, ENGLISH, key_facts=(Entry(ENGLISH[:600]),)) == "no content"


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't assist with that request.",
        "I\u2019m sorry, but I can\u2019t help with summarizing this conversation.",
        "I cannot provide a summary of this content.",
        "Sorry, I can't do that.",
        "As an AI language model, I am not able to do this.",
        "Es tut mir leid, aber dabei kann ich nicht helfen.",
        "Ich kann diese Anfrage leider nicht bearbeiten.",
        "Leider kann ich das nicht zusammenfassen.",
        "Je suis désolé, mais je ne peux pas vous aider.",
        "Désolée, je ne peux pas faire cela.",
        "Lo siento, pero no puedo ayudar con eso.",
        "Desculpe, mas não posso ajudar com isso.",
        "Mi dispiace, ma non posso aiutarti.",
        "很抱歉,我无法完成这个请求。",
        "我无法协助处理这个请求。",
        "申し訳ありませんが、そのご要望にはお応えできません。",
        "죄송하지만 도와드릴 수 없습니다.",
        "\u041a \u0441\u043e\u0436\u0430\u043b\u0435\u043d\u0438\u044e, \u044f \u043d\u0435 \u043c\u043e\u0433\u0443.",
    ],
)
def test_a_refusal_is_refused(text: str) -> None:
    """In any language, also when more follows."""
    assert judged(text, ENGLISH) == "refused"
    assert judged(f"{text} {SUMMARIES['English']}", ENGLISH) == "refused"


@pytest.mark.parametrize(
    "text",
    [
        "The assistant refused: \u201cI'm sorry, but I can't assist with that request.\u201d",
        "The user is sorry that the export fails and cannot wait.",
        "As an AI engineer, Anna looks after the export.",
        "Nothing helped so far.",
        "None of the retries worked.",
        "A string was missing in the export.",
        "Leider schlägt der Export fehl.",
        "用户说他无法等待。",
    ],
)
def test_what_only_sounds_like_it_is_not_refused(text: str) -> None:
    """A record of a refusal is a record."""
    assert judged(f"{text} {SUMMARIES['English']}", ENGLISH) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a string, what happened in the order of events", "repeats its prompt"),
        ("what happened, in the order of events", "repeats its prompt"),
        ("a list of strings, each one fact worth knowing later", "repeats its prompt"),
        ("<summary of the conversation>", "repeats its prompt"),
        ('{"summary_text": "They talked."}', "malformed"),
        ('```json\n{"summary_text": "They talked."}\n```', "malformed"),
    ],
)
def test_the_texts_of_the_form_are_no_summary(text: str, reason: str) -> None:
    """Nor is a form inside the form."""
    assert judged(text, ENGLISH) == reason


@pytest.mark.parametrize(
    ("source_tokens", "tokens", "reason"),
    [
        (100_000, MIN_TOKENS - 1, "too short"),
        (100_000, MIN_TOKENS, None),
        (1_000, 19, "too short"),
        (1_000, 20, None),
        (50, 1, None),
    ],
)
def test_a_summary_has_a_least_length(source_tokens: int, tokens: int, reason: str | None) -> None:
    """Sixty tokens, or a fiftieth of a small source; all fields together."""
    written, refused = ModelSummary("w" * (tokens // 2), (Entry("w" * (tokens - tokens // 2)),)), None
    if tokens == 1:
        written = ModelSummary("w")
    try:
        judge_content(written, [ENGLISH], source_tokens=source_tokens, count=len)
    except SummaryRefused as found:
        refused = found.reason
    assert refused == reason


def test_a_stored_summary_is_judged_by_its_own_words() -> None:
    """It may be short, and of anything."""
    require_content(Summary(ModelSummary("They greeted each other.")))
    with pytest.raises(SummaryRefused, match="no content"):
        require_content(Summary(ModelSummary("N/A"), tool_facts=("search({}): 7 rows",)))
