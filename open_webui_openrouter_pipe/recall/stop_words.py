"""Words of a question that say nothing about its subject, in some common languages: grammar, courtesy, small talk.

They are omitted from queries alone; the index has every word. Of a language that is not here, what many passages have
counts for little all the same.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

# ruff: noqa: RUF001, SIM905 - words of other scripts, and lists of words that would be long as lists of strings

STOP_WORDS: Final = frozenset(
    """
    a about after again ah all also am an and any anything anyway are aren as at be because been before
    being but by can could couldn course d did didn do does doesn doing don done each either else enough
    ever every everything few fine for from further get getting give given gives go goes going good got
    great had hadn has hasn have haven having he hello help her here hers hey hi him his hmm how however
    i if in into is isn it its itself just keep know let lets like ll look looks lot m made make many may
    maybe me might mine more most much must my need nice no nor not now of off oh ok okay on once one
    only or other our out over own perfect please pls probably put quite rather re really remember remind
    right s said say says see seem seems shall she should shouldn since so some something sorry still
    such sure t take tell than thank thanks that the their them then there these they thing things think
    this those though through thx to too try u under until up us use ve very want was wasn way we well
    were weren what whats when where whether which while who whom whose why will with without won would
    wouldn wow yeah yep yes yet you your yours cool awesome exactly agreed interesting understood
    continue proceed idea sounds first again ask asked mention mentioned earlier previously exact were
    called

    aber alle allem allen aller alles als also am an ander andere anderen auch auf aus bei bin bis bist
    bitte da dabei damit danach danke dann daran das dass dein deine dem den denn der des deshalb dich
    die dies diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer eines
    einfach einmal er erst es etwas euch euer fur ganz gar gegen genau gern gerne gibt gut habe haben
    hallo hast hat hatte hatten hier hin hinter ich ihm ihn ihnen ihr ihre im in ins ist ja jede jeder
    jedes jetzt kann kannst klar konnen konnte machen mach mal man mehr mein meine mich mir mit moin muss
    nach naja nein nicht nichts noch nun nur ob oder ohne passt prima sag schon schon sehr sein seine
    seit selbst sich sie sind so soll sollte sonst super tschuss uber um und uns unser unter viel vielen
    vom von vor wann war waren warum was weil weiter weiss welche welchem welchen welcher welches wenn
    wer werde werden wie wieder will wir wird wo wohl wurde wurden zu zum zur denkst meinst

    afin ai alors as au aucun aussi autre aux avec avez avoir avons beaucoup bien bon bonjour bonsoir c
    ca car ce cela ces cet cette ceux chez ci comme comment continue d dans de des deux dire dis dit doit
    donc dont du elle elles en encore entre es est et etait etaient ete etes etre eu eux faire fait faut
    il ils j je jusqu l la le les leur leurs lui ma mais meme merci mes moi moins mon n ne ni non nos
    notre nous on ont ou oui par parce parfait pas peu peut peux plait plus pour pourquoi pouvez qu quand
    que quel quelle quelles quels qui quoi rien sa sais salut sans se sera ses si sont sous sur t ta te
    tes toi ton tous tout toute toutes tres tu un une va vas vers veux voila vos votre vous y d'accord
    accord penses pensez

    al algo algun alguna ante asi aunque bien buenas bueno buenos cada como con contra cosa creo cual
    cuales cuando cuanto de del desde donde dos e el ella ellas ellos en entonces entre era eran eres es
    esa ese eso esta estaba estan estas este esto estos estoy favor fue fueron gracias ha haber habia han
    hasta hay haz he hizo hola igual la las le les lo los mas me mejor mi mis mucho muchas muy nada ni no
    nos nosotros nuestro o os otra otro para pero perfecto poco por porque puede puedes pues que quien
    quiero sabe se ser si sigue sin sobre solo son soy su sus tal tambien tan te tengo tiene tienes todo
    todos tu tus un una unas uno unos vale vamos vez y ya yo piensas opinas parece

    abbiamo ad adesso agli ai al alla alle allora anche ancora avanti aveva bene buongiorno che chi ci
    ciao cio come con continua cosa cosi da dagli dal dalla dei del della delle dello devo di dopo dove
    due e ecco ed era erano essere fa fare fatto fra gia gli grazie ha hai hanno ho i il in io la le lei
    li lo loro lui ma mi mia mio molto ne nei nel nella noi non nostro o ogni ora ottimo per perche
    perfetto pero piu poi prego prima puoi quale quali quando quanto quella quello questa queste questi
    questo qui sara se sei senza si sia sono sta stato su sua sul sulla suo te ti tra tu tua tuo tutti
    tutto un una uno va vai vi voi vostro pensi

    agora ainda ao aos aqui as ate bem boa bom cada com como da das de dela dele depois do dois dos e ela
    elas ele eles em entao entre era essa esse esta estao estar estava este eu faz fazer foi foram ha
    isso isto ja la lhe mais mas me mesmo meu minha muito na nao nas nem no nos nossa nosso num o
    obrigada obrigado ola onde os ou para pela pelo pode podes por porque qual quando quanto que quem sao
    se seja sem ser seu sim sua ta tambem te tem tenho ter teu tinha tu tudo um uma vai voce voces achas
    acha

    aan al alles als andere ben bij daar dan dank dat de deze die dit doe doen door dus een eens en er ga
    gaan goed had heb hebben heeft het hier hij hoe hoi ik in is ja je jij jullie kan kun maar me meer
    met mij mijn moet na naar nee niet niets nog nu of om omdat onder ons ook op over prima te tot u uit
    van veel verder voor waar waarom wat we wel welke werd wie wij wil worden zal ze zei zelf zich zij
    zijn zo zonder zou bedankt vind vindt dankjewel

    albo ale bardzo bez bo by byc byl byla bylo byly ci co czy czym dalej dla dlaczego do dobra dobrze
    dziekuje dzieki gdy gdzie go hej i ich ile im ja jak jaka jaki jakie jako je jego jej jest jestem juz
    kiedy kto ktora ktore ktory ma mam mi mnie moge moj moja moze mozesz na nad nam nas nasz nic nie
    niech no o od on ona one oni oraz po pod prosze przed przez przy sa sie super swoj ta tak tam te tego
    tej ten to tu ty tylko tym u w wiec wszystko z za ze zeby czesc myslisz sadzisz

    а без бы был была были было быть в вам вас весь вот все всего всех вы где да давай для до его ее ей
    если есть еще же за здесь и из или им их к как какая какие какой когда кто ли меня мне может мои мой
    мы на над надо нам нас не него нет ни но ну о об он она они от очень по под пожалуиста понятно потом
    потому почему привет при продолжаи про с сам свое себя со спасибо так также там твои те тебе тебя тем
    то тогда тоже только том тот ты у уже хорошо чего чем что чтобы эта эти это этот я думаешь думаете
    скажи

    ama bana ben beni bir biz bu bunu cok daha de degil devam diye et evet gibi hangi hayir hem icin ile
    ise iyi kadar ki lutfen mi mu nasil ne neden nedir nerede o olarak oldu olsun onu sana sen siz sonra
    su tamam tesekkurler tesekkur ederim selam merhaba var ve veya ya yok dusunuyorsun

    alla allt att av bara bra da de dem den det detta dig din du dar efter eller en er ett fick finns for
    fran ga gor ha hade han har hej hon hur har i inte ja jag kan med mej men mig min mycket nagot nar
    nej nu och ocksa okej om pa sa sen ska skulle som tack till ut vad var vara varfor vart vem vi vid
    vill vilken tycker

    today tonight morning afternoon evening night haha lol geht gehts heute morgen abend guten guter gute nacht tag
    soir nuit journee matin bonne dias tardes noches noche giorno sera notte buona mille dia noite tarde boas
    goedemorgen goedenavond vandaag fijne dzien dobry wieczor noc дела доброе утро вечер день ночи gunaydin geceler
    aksamlar nasilsin god morgon kvall natt idag lot lots helps helped helpful welcome hilft geholfen
    aide ayuda aiuta ajuda helpt pomaga помогло
    """.split()
)
"""Words, folded."""

_STOP_RUNS: Final = """
    谢谢 谢谢你 多谢 非常感谢 不客气 你好 您好 早上好 再见 好的 可以的 没问题 继续 请继续 你觉得呢
    你怎么看 怎么样 什么 为什么 怎么 哪个 哪里 哪些 多少 几个 是什么 是不是 有没有 我们 你们 他们 这个
    那个 这些 那些 请问 还有 以及 因为 所以 但是 如果 的是 了吗 是的 请你 告诉我 謝謝 繼續 什麼 為什麼
    這個 那個 我們 你覺得呢 沒問題 ありがとう ありがとうございます どうも こんにちは こんばんは おはよう
    さようなら はい いいえ わかりました 了解 了解です 続けて 続けてください お願いします どう思いますか
    どうですか ですか ますか でした ました でしょう ください します したか している これ それ あれ この
    その あの ここ そこ なに なぜ どう どの どこ いつ だれ から まで ので ために という について んです
    감사합니다 고마워 고마워요 안녕 안녕하세요 네 아니요 알겠습니다 좋아요 좋아 계속 계속해 계속해주세요
    어떻게 생각해 어떻게 생각하세요 무엇 뭐야 왜 어디 언제 누구 그리고 그래서 하지만 입니다 입니까 인가요
    있나요 했나요 했어 했지 합니다 주세요 ขอบคุณ ขอบคุณครับ ขอบคุณค่ะ สวัสดี สวัสดีครับ ครับ ค่ะ ต่อ
    ทำต่อ คุณคิดอย่างไร อะไร ทำไม ที่ไหน เมื่อไร
""".split()

STOP_PAIRS: Final = frozenset(
    pair for run in _STOP_RUNS for pair in (map("".join, pairwise(run)) if run[1:] else (run,))
)
"""The same of scripts without blanks, as pairs of characters."""
