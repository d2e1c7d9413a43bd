"""The words that users read, in each language but English: pure, tables alone.

    language    what a language is: its lines, its forms of numbers, days and plurals
    german      German, with the formal "Sie" of Open WebUI's own translation
    french      French, with "vous"
    spanish     Spanish, with "usted" left unsaid
    portuguese  Brazilian Portuguese, with "você" left unsaid
    chinese     Chinese in simplified characters
    japanese    Japanese, in the polite form

Each table has the names of the English one in `notices`, which stands in for what a table lacks. Buttons and menus are
named as Open WebUI 0.12 shows them in that language.
"""
