"""The console: a web page that shows the whole system, as a process of its own.

It knows the server only over HTTP, as the person who is logged in (`access`), so it can't slow the broker down and can do
nothing that this person may not do.

    process    starts it on a socket that somebody else may have bound
    app        puts it together: the checks of `security`, the pages
    assets     scripts and styles, handed out without a detour
    access     requests to the server; refuses every change in read-only mode
    sharing    answers that several pages share
    polling    what a page looks at again and again, while it is seen
    sessions   who is logged in
    frame      what is around every page: navigation, search, dark mode, login
    parts/     what pages are made of: lists in pages, charts, values, questions before something is destroyed
    pages/     one file for each

Values of records, names and headers come from anybody: they are shown as text and never as HTML.
"""
