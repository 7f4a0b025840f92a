"""Applications: how survey exports are read."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpuadmin.config.fields import Date, HostName, Pattern, Text
from gpuadmin.config.schema.base import Model


class FormColumns(Model):
    """The survey form's columns, by their titles. Usual Korean and English titles are recognised without it."""

    time: Annotated[Text | None, Field(description="When it was sent.")] = None
    name: Annotated[Text | None, Field(description="The person's name.")] = None
    student_id: Annotated[Text | None, Field(description="Student id.")] = None
    email: Annotated[Text | None, Field(description="E-mail address.")] = None
    user_name: Annotated[
        Text | None, Field(description="The login name asked for. Without such a column it is made from the address.")
    ] = None
    key: Annotated[Text | None, Field(description="ssh public key, or several on lines of their own.")] = None
    docker: Annotated[Text | None, Field(description="Whether Docker is wanted.")] = None
    terms: Annotated[
        list[Text] | None,
        Field(description="Every one of these must be agreed to; `[]` where the form asks for no agreement."),
    ] = None


class MemberColumns(Model):
    """The columns of the group's list of applications, by their titles."""

    name: Annotated[Text | None, Field(description="The person's name.")] = None
    student_id: Annotated[Text | None, Field(description="Student id.")] = None
    email: Annotated[Text | None, Field(description="E-mail address.")] = None


class Applications(Model):
    """How survey exports are read (`gpuadmin import-applications`)."""

    columns: Annotated[FormColumns, Field(description="The survey form's columns, by their titles.")] = FormColumns()
    members: Annotated[MemberColumns, Field(description="The columns of the group's list.")] = MemberColumns()
    encodings: Annotated[
        list[Literal["utf-8", "cp949"]],
        Field(min_length=1, description="Tried in this order; a byte order mark is understood."),
    ] = ["utf-8", "cp949"]
    required: Annotated[
        list[Literal["name", "student_id", "key"]], Field(description="What everybody must give to get an account.")
    ] = ["name", "student_id", "key"]
    agree: Annotated[list[Text], Field(min_length=1, description="Answers that mean agreement.")] = [
        "동의", "동의함", "동의합니다", "예", "네", "yes", "agree", "i agree", "true",
    ]  # fmt: skip
    student_id: Annotated[
        Pattern, Field(description="A regular expression that a whole student id matches, without blanks and hyphens.")
    ] = "[A-Za-z]?[0-9]{6,12}"
    domains: Annotated[
        list[HostName], Field(description="Addresses must be of these domains or below them; any, if none is named.")
    ] = []
    docker: Annotated[bool, Field(description="Whether people get Docker where the form does not ask.")] = True
    expires: Annotated[
        Date | None, Field(description="Last day of the new accounts; without it the term's deadline.")
    ] = None
    form: Annotated[Text | None, Field(description="The form's address, for mails that ask to fill it in.")] = None
